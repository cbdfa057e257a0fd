// Attention over tiles (AmxTiles, or an emulation of them in tests).
//
// One task is a range of queries of one head. Keys and values are packed once a task, as 1 KB tiles:
//   keys    [block of 32 keys][step of 32 elements][2][16 pairs of elements][16 keys][2]
//   values  [chunk][32 elements][block of 32 keys][2][16 pairs of keys][16 elements][2]
// From the outside in:
//   group   kGroupRows queries, packed as [unit][step][2][16][32]; with their sums they stay in L2
//   chunk   kChunkBlocks * 32 keys and values; passes through L2 and meets every unit of the group,
//           while the next one is fetched
//   unit    32 queries: an item of work is a unit times a chunk
//   block   32 keys: 32 x 32 scores from 2 x 2 tiles, in a ring of kRing blocks in L1
// The products are made in the order  scores of item i, in between sums of item i - 1;  and behind them
// all, row by row, blocks of scores become probabilities. Probabilities of two items wait in L1.
// Sums go through memory once an item. The keys of a query are always taken in the same order, whatever
// the split.
//
// Scratch of a task: 4 bytes for each element of the keys (they and the values), and for each query of a
// group 6 bytes an element and 128; with head_dim 128 and 4608 keys 2.8 MB.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/amx_product.h"
#include "difflet/backends/cpu/kernels/attention_amx_rows.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// Tuned constants.
struct AmxAttentionConfig {
  static constexpr std::int64_t kGroupRows = 512;  // with head_dim 128 or less, fewer beyond
  static constexpr std::int64_t kChunkBlocks = 8;
  static constexpr std::int64_t kRing = 4;
  static constexpr std::int64_t kLeastRows = 512;  // of a range, unless threads would be idle
};

template <class Tiles, class Config>
struct AmxAttention {
  using Product = AmxProduct<Tiles>;
  using Rows = AmxAttentionRows;
  using Slot = typename Rows::template Slot<Config::kRing>;
  using Part = typename Rows::Ahead::Part;
  static constexpr std::int64_t kUnit = Rows::kUnit, kBlock = Rows::kBlock;
  static constexpr std::int64_t kStepBytes = Product::kStepBytes;
  static constexpr std::int64_t kChunk = Config::kChunkBlocks;
  static constexpr std::int64_t kMaxUnits = Config::kGroupRows / kUnit;
  static constexpr std::int64_t kMaxDim = 256;

  static const char* refuse(const AttentionArgs& a) noexcept {
    if (a.elem != Elem::Bf16) return "the kernel multiplies bf16 only";
    if (a.head_dim % kTileK != 0) return "the kernel needs a head dim that is a multiple of 32";
    if (a.head_dim > kMaxDim) return "the kernel takes a head dim up to 256";
    return nullptr;
  }

  // Ranges of a head are few: each packs all keys again.
  static std::int64_t tasks(const AttentionArgs& a, int threads) noexcept {
    constexpr std::int64_t kTasksPerThread = 4;
    const std::int64_t heads = a.batch * a.heads;
    if (threads <= 1) return heads;
    const std::int64_t wanted = ceil_div(kTasksPerThread * threads, heads);
    const std::int64_t long_enough = smaller(wanted, ceil_div(a.q_len, Config::kLeastRows));
    const std::int64_t busy = smaller(ceil_div(threads, heads), ceil_div(a.q_len, 2 * kUnit));
    return heads * larger(long_enough, busy);
  }

  struct Sizes {
    std::int64_t ranges;      // of a head
    std::int64_t rows;        // queries of a range
    std::int64_t group_rows;  // of a full group
    std::int64_t steps;       // of head_dim
    std::int64_t blocks;      // of keys
    std::int64_t chunks;
    // In scratch, bytes. Of the sums, rows and probabilities see AmxAttentionRows.
    std::int64_t values_at, queries_at, sums_at, rows_at, scores_at, p_at, packed_at, end;

    Sizes(const AttentionArgs& a, std::int64_t tasks) {
      ranges = tasks / (a.batch * a.heads);
      rows = round_up(ceil_div(a.q_len, ranges), kUnit);
      steps = a.head_dim / kTileK;
      const std::int64_t most = larger(kUnit, Config::kGroupRows * 4 / larger(4, steps));
      group_rows = round_up(ceil_div(rows, ceil_div(rows, most / kUnit * kUnit)), kUnit);
      blocks = ceil_div(a.k_len, kBlock);
      chunks = ceil_div(blocks, kChunk);
      values_at = blocks * steps * kStepBytes;
      queries_at = 2 * values_at;
      sums_at = queries_at + group_rows * steps * kTileRowBytes;
      rows_at = sums_at + group_rows * steps * kBlock * 4;
      scores_at = rows_at + group_rows * Rows::kRowFloats * 4;
      p_at = scores_at + Config::kRing * Rows::kFloats * 4;
      packed_at = p_at + 2 * kChunk * Rows::kBlockBytes;
      end = round_up(packed_at + chunks, 64);
    }
  };

  static std::size_t scratch_bytes(const AttentionArgs& a, int threads) noexcept {
    return static_cast<std::size_t>(Sizes(a, tasks(a, threads)).end);
  }

  struct Unit {
    KeySpan any, all;  // keys that one of its queries sees, that each of them sees
    bool started;      // it has had an item
    bool risen[2];     // sums are to be scaled before those of an even, an odd item
  };

  // A unit times a chunk.
  struct Item {
    std::int64_t unit = 0, chunk = 0;
    std::int64_t first = 0, count = 0;  // blocks of keys; count 0: no item
    std::int64_t end = 0;               // number of blocks of scores made up to its last
    std::int64_t parity = 0;
    char* p = nullptr;    // its probabilities, [block][2][16][32]
    bool begins = false;  // its sums are the first of the unit
  };

  struct Task {
    const AttentionArgs& a;
    Sizes z;
    std::int64_t batch = 0, head = 0, kv_head = 0;
    char* base = nullptr;                  // of scratch
    std::int64_t query = 0, rows = 0;      // of the group
    std::int64_t next_query = 0, end = 0;  // of the next group; of the range
    typename Rows::Shared shared = {};
    Unit units[kMaxUnits];
    typename Rows::ScoreBlock ring[Config::kRing];
    std::int64_t scored = 0;  // blocks of scores made, the last of which may still be in the tiles
    std::int64_t items = 0;   // that were begun
    typename Product::Pending pending;
    Part ahead[4];
    Slot slot;

    std::int64_t unit_count() const { return ceil_div(rows, kUnit); }
    std::int64_t block_bytes() const { return z.steps * kStepBytes; }  // of keys or values
    std::int64_t chunk_blocks(std::int64_t chunk) const {
      return smaller(kChunk, z.blocks - chunk * kChunk);
    }
    char* keys(std::int64_t block) const { return base + block * block_bytes(); }
    char* values(std::int64_t chunk) const {
      return base + z.values_at + chunk * kChunk * block_bytes();
    }
    char* queries(std::int64_t unit) const { return base + z.queries_at + unit * block_bytes(); }
    float* sums(std::int64_t unit) const {
      return reinterpret_cast<float*>(base + z.sums_at) + unit * z.steps * Rows::kFloats;
    }
    float* row(std::int64_t r) const {
      return reinterpret_cast<float*>(base + z.rows_at) + r * Rows::kRowFloats;
    }
    const char* key_row(std::int64_t key) const {
      const Heads& k = a.k;
      return element(k.data, a.elem, batch * k.batch + key * k.token + kv_head * k.head);
    }
    const char* value_row(std::int64_t key) const {
      const Heads& v = a.v;
      return element(v.data, a.elem, batch * v.batch + key * v.token + kv_head * v.head);
    }
    const char* query_row(std::int64_t q) const {
      return element(a.q.data, a.elem, batch * a.q.batch + q * a.q.token + head * a.q.head);
    }
  };

  // ---- packing ----------------------------------------------------------------------------------

  static void fetch_row(const Task& t, const char* row) {
    for (std::int64_t d = 0; d < t.z.steps; ++d) __builtin_prefetch(row + d * 64, 0, 3);
  }

  static void pack_keys(const Task& t, std::int64_t block) {
    const std::int64_t key = block * kBlock;
    for (std::int64_t i = 0; i < kBlock && key + kBlock + i < t.a.k_len; ++i) {
      fetch_row(t, t.key_row(key + kBlock + i));
    }
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t first = key + half * kTileRows;
      const std::int64_t rows = smaller(kTileRows, t.a.k_len - first);
      const char* from = t.key_row(rows > 0 ? first : 0);
      char* to = t.keys(block) + half * kTileBytes;
      for (std::int64_t d = 0; d < t.z.steps; ++d, from += 64, to += kStepBytes) {
        pack_square<Elem::Bf16>(from, Elem::Bf16, t.a.k.token, rows, kTileK,
                                reinterpret_cast<Word*>(to), kTileRows, kTileRows);
      }
    }
  }

  static void pack_values(const Task& t, std::int64_t chunk, std::int64_t block) {
    const std::int64_t stride = t.chunk_blocks(chunk) * kStepBytes;
    char* const panel = t.values(chunk) + (block - chunk * kChunk) * kStepBytes;
    for (std::int64_t pair = 0; pair < kTileRows; ++pair) {
      const std::int64_t key = block * kBlock + 2 * pair;
      if (key + kBlock + 1 < t.a.k_len) {
        fetch_row(t, t.value_row(key + kBlock));
        fetch_row(t, t.value_row(key + kBlock + 1));
      }
      const char* even = t.value_row(key < t.a.k_len ? key : 0);
      const char* odd = t.value_row(key + 1 < t.a.k_len ? key + 1 : 0);
      char* to = panel + pair * kTileRowBytes;
      for (std::int64_t d = 0; d < t.z.steps; ++d, to += stride) {
        Vec::W low = Vec::zero_words();
        Vec::W high = Vec::zero_words();
        if (key + 1 < t.a.k_len) {
          Vec::interleave16(Vec::load_words(even + d * 64), Vec::load_words(odd + d * 64), &low,
                            &high);
        } else if (key < t.a.k_len) {
          Vec::interleave16(Vec::load_words(even + d * 64), Vec::zero_words(), &low, &high);
        }
        Vec::store_words(to, low);
        Vec::store_words(to + kTileBytes, high);
      }
    }
  }

  static void pack_queries(const Task& t) {
    constexpr std::int64_t kAhead = 16;
    for (std::int64_t r = 0; r < t.unit_count() * kUnit; ++r) {
      if (r + kAhead < t.rows) fetch_row(t, t.query_row(t.query + r + kAhead));
      const char* from = t.query_row(t.query + (r < t.rows ? r : 0));
      char* to = t.queries(r / kUnit) + r % kUnit * kTileRowBytes;
      for (std::int64_t d = 0; d < t.z.steps; ++d) {
        Vec::store_words(to + d * kStepBytes,
                         r < t.rows ? Vec::load_words(from + d * 64) : Vec::zero_words());
      }
    }
  }

  // ---- the order of the work --------------------------------------------------------------------

  // What is fetched while a group is at `chunk`: the next chunk, as it is by now; at the last the next
  // group's queries and its first chunk, presumably the first of all.
  static void fetch_ahead(Task& t, std::int64_t chunk, std::int64_t last) {
    const std::int64_t row_bytes = t.z.steps * 64;
    Part* to = t.ahead;
    std::int64_t next = chunk + 1;
    if (next >= last) {
      next = 0;
      if (t.next_query >= t.end) next = last;
      const std::int64_t rows = smaller(t.z.group_rows, t.end - t.next_query);
      if (rows > 0) *to++ = {t.query_row(t.next_query), row_bytes, t.a.q.token * 2, rows};
    }
    if (next < last && t.base[t.z.packed_at + next] != 0) {
      const std::int64_t bytes = t.chunk_blocks(next) * t.block_bytes();
      *to++ = {t.keys(next * kChunk), bytes, 0, 1};
      *to++ = {t.values(next), bytes, 0, 1};
    } else if (next < last) {
      const std::int64_t key = next * kChunk * kBlock;
      const std::int64_t count = smaller(kChunk * kBlock, t.a.k_len - key);
      *to++ = {t.key_row(key), row_bytes, t.a.k.token * 2, count};
      *to++ = {t.value_row(key), row_bytes, t.a.v.token * 2, count};
    }
    *to = {};
    // 64 lines a block and step of head_dim; each unit makes two steps of products with them.
    constexpr std::int64_t kMostLines = 8;
    t.slot.ahead.start(t.ahead,
                       static_cast<int>(smaller(kMostLines, ceil_div(32, t.unit_count()))));
  }

  static void enter_chunk(Task& t, std::int64_t chunk, std::int64_t last) {
    char& packed = t.base[t.z.packed_at + chunk];
    if (packed == 0) {
      const std::int64_t end = smaller(t.z.blocks, (chunk + 1) * kChunk);
      for (std::int64_t b = chunk * kChunk; b < end; ++b) {
        pack_keys(t, b);
        pack_values(t, chunk, b);
      }
      packed = 1;
    }
    fetch_ahead(t, chunk, last);
  }

  // The place in the order of items: by chunks, then by units.
  struct Walk {
    std::int64_t chunk = 0, last = 0;  // chunks [chunk, last)
    std::int64_t unit = 0;

    Item next(Task& t) {
      for (; chunk < last; ++chunk, unit = 0) {
        if (unit == 0) enter_chunk(t, chunk, last);
        while (unit < t.unit_count()) {
          Unit& u = t.units[unit++];
          const std::int64_t first = larger(u.any.lo / kBlock, chunk * kChunk);
          const std::int64_t end = smaller(ceil_div(u.any.hi, kBlock), (chunk + 1) * kChunk);
          if (first >= end) continue;
          const std::int64_t parity = t.items++ % 2;
          char* p = t.base + t.z.p_at + parity * kChunk * Rows::kBlockBytes;
          const bool begins = !u.started;
          u.started = true;
          return {unit - 1, chunk, first, end - first, t.scored + end - first, parity, p, begins};
        }
      }
      return {};
    }
  };

  // Probabilities of all blocks before `block`.
  [[gnu::noinline]] static void soften(Task& t, std::int64_t block) {
    if (block > t.slot.stored) {
      t.pending.store();
      t.slot.stored = t.scored;
    }
    while (t.slot.done < block) t.slot.one();
  }

  // The sums belong to `to`.
  // NOLINTNEXTLINE(readability-non-const-parameter): kept, and written later
  static void multiply(Task& t, typename Product::Block& b, float* to) {
    b.pending = t.pending.to;
    b.strip_bytes = kTileBytes;
    b.step_bytes = kStepBytes;
    t.slot.stored = t.scored;
    Product::template multiply<2, Passing::Right>(b, t.slot);
    t.pending = {to, 2};
  }

  // Scores of block `i` of an item.
  static void score(Task& t, const Item& item, std::int64_t i) {
    soften(t, t.scored + 1 - Config::kRing);
    const std::int64_t place = Slot::place_of(t.scored);
    const std::int64_t key = (item.first + i) * kBlock;
    Unit& u = t.units[item.unit];
    const bool whole = u.all.lo <= key && key + kBlock <= u.all.hi;
    t.ring[place] = {item.p + i * Rows::kBlockBytes,
                     t.row(item.unit * kUnit),
                     smaller(kUnit, t.rows - item.unit * kUnit),
                     t.query + item.unit * kUnit,
                     key,
                     i,
                     item.parity,
                     &u.risen[item.parity],
                     item.begins && i == 0,
                     t.shared.plain && whole};
    typename Product::Block b;
    b.a = t.queries(item.unit);
    b.b = t.keys(item.first + i);
    b.steps = t.z.steps;
    multiply(t, b, t.shared.scores + place * Rows::kFloats);
    ++t.scored;
  }

  // Scales the sums of the item's unit where its scores raised references.
  static void rescale(Task& t, const Item& item) {
    Unit& u = t.units[item.unit];
    bool& risen = u.risen[item.parity];
    if (!risen) return;
    risen = false;
    t.pending.store();
    for (std::int64_t r = 0; r < kUnit && item.unit * kUnit + r < t.rows; ++r) {
      float& shrink = t.row(item.unit * kUnit + r)[Rows::kShrink + item.parity];
      if (shrink == 1) continue;
      const Vec::F factor = Vec::set1(shrink);
      shrink = 1;
      float* sums = t.sums(item.unit) + r * kBlock;
      for (std::int64_t d = 0; d < t.z.steps && !item.begins; ++d, sums += Rows::kFloats) {
        Vec::store(sums, Vec::mul(Vec::load(sums), factor));
        Vec::store(sums + 16, Vec::mul(Vec::load(sums + 16), factor));
      }
    }
  }

  // Sums of 32 elements of an item.
  static void weigh(Task& t, const Item& item, std::int64_t d) {
    if (d == 0) {
      soften(t, item.end);
      rescale(t, item);
    }
    float* const sums = t.sums(item.unit) + d * Rows::kFloats;
    typename Product::Block b;
    b.a = item.p;
    b.b = t.values(item.chunk) +
          (d * t.chunk_blocks(item.chunk) + item.first - item.chunk * kChunk) * kStepBytes;
    b.steps = item.count;
    b.from = item.begins ? nullptr : sums;
    multiply(t, b, sums);
  }

  // Scores of an item and sums of the item before, either of which may be missing.
  static void work_on(Task& t, const Item& item, const Item& before) {
    const std::int64_t groups = before.count > 0 ? t.z.steps : 0;
    std::int64_t i = 0;
    std::int64_t d = 0;
    while (i < item.count || d < groups) {
      if (d < groups && (i == item.count || (d + 1) * item.count <= i * groups)) {
        weigh(t, before, d++);
      } else {
        score(t, item, i++);
      }
    }
  }

  // ---- a task -----------------------------------------------------------------------------------

  static void start_group(Task& t) {
    t.rows = smaller(t.z.group_rows, t.end - t.query);
    t.next_query = t.query + t.rows;
    pack_queries(t);
    for (std::int64_t i = 0; i < t.unit_count(); ++i) {
      const std::int64_t query = t.query + i * kUnit;
      const std::int64_t count = smaller(kUnit, t.next_query - query);
      t.units[i] = {keys_of_any(t.a, t.batch, query, count),
                    keys_of_all(t.a, t.batch, query, count),
                    false,
                    {}};
      if (t.units[i].any.lo < t.units[i].any.hi) continue;
      // No item will come.
      for (std::int64_t r = 0; r < kUnit; ++r) {
        Vec::store(t.row(i * kUnit + r) + Rows::kWeight, Vec::zero());
      }
      float* sums = t.sums(i);
      for (std::int64_t j = 0; j < t.z.steps * Rows::kFloats; j += Vec::kLanes) {
        Vec::store(sums + j, Vec::zero());
      }
    }
    t.shared.y = element(t.a.y, t.a.elem,
                         t.batch * t.a.y_batch + t.query * t.a.y_token + t.head * t.a.y_head);
    t.slot.finish = t.slot.finish_end = 0;
  }

  static void run_group(Task& t) {
    start_group(t);
    KeySpan seen{t.a.k_len, 0};
    for (std::int64_t i = 0; i < t.unit_count(); ++i) {
      const KeySpan& any = t.units[i].any;
      seen = {smaller(seen.lo, any.lo), larger(seen.hi, any.hi)};
    }
    Walk walk{seen.lo / (kChunk * kBlock), ceil_div(seen.hi, kChunk * kBlock)};
    Item before;
    bool more = true;
    while (more) {
      const Item item = walk.next(t);
      more = item.count > 0 || before.count > 0;
      // At the last chunk units before this one are through.
      if (before.count > 0 && before.chunk + 1 == walk.last) {
        t.slot.finish_end = before.unit * kUnit;
      }
      work_on(t, item, before);
      before = item;
    }
    t.pending.store();
    for (std::int64_t r = t.slot.finish; r < t.rows; ++r) Rows::finish_row(t.shared, r);
  }

  static void run(const AttentionArgs& a, std::int64_t task, std::int64_t tasks,
                  void* scratch) noexcept {
    const Sizes z(a, tasks);
    const std::int64_t item = task / z.ranges;
    const std::int64_t first = task % z.ranges * z.rows;
    const std::int64_t end = smaller(first + z.rows, a.q_len);
    char* const base = static_cast<char*>(scratch);
    const bool plain = a.bias == nullptr && a.scale > 0;
    const std::int64_t head = item % a.heads;
    Task t{.a = a,
           .z = z,
           .batch = item / a.heads,
           .head = head,
           .kv_head = head / (a.heads / a.kv_heads),
           .base = base,
           .end = end,
           .shared = {.a = &a,
                      .batch = item / a.heads,
                      .head = head,
                      .steps = z.steps,
                      .plain = plain,
                      .to_exp2 = plain ? a.scale * kLog2E : kLog2E,
                      .scores = reinterpret_cast<float*>(base + z.scores_at),
                      .rows = reinterpret_cast<float*>(base + z.rows_at),
                      .sums = reinterpret_cast<float*>(base + z.sums_at),
                      .y = nullptr}};
    t.slot.w = &t.shared;
    t.slot.ring = t.ring;
    __builtin_memset(base + z.packed_at, 0, static_cast<std::size_t>(z.chunks));
    Tiles::configure();
    for (t.query = first; t.query < end; t.query = t.next_query) run_group(t);
    Tiles::release();
  }

  static constexpr AttentionKernel kernel(const char* name) {
    return {name, Level::Amx, refuse, tasks, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace difflet::cpu
