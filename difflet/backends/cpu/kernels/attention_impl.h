// Attention in one pass over the keys, written once over the Vec and Dot of the including unit.
//
// One task is a range of queries of one head. Keys and values come in blocks that fit L2: a block
// is packed once for the range, then every tile of kRows queries makes its scores with it, turns
// them into probabilities in place (in L1) and adds them times the values to its sums. When the
// largest score of a query rises, its sums are scaled down. The keys of a query are always taken in
// the same order, whatever the split.
// Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/attention_keys.h"
#include "difflet/backends/cpu/kernels/pack.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

inline void fill(float* p, std::int64_t count, float value) {
  std::int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) Vec::store(p + i, Vec::set1(value));
  for (; i < count; ++i) p[i] = value;
}

// Largest of the first `count` (a multiple of kLanes) values.
inline float largest(const float* p, std::int64_t count) {
  constexpr int kLanes = Vec::kLanes;
  Vec::F a = Vec::load(p);
  Vec::F b = a;
  std::int64_t i = kLanes;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    a = Vec::max(a, Vec::load(p + i));
    b = Vec::max(b, Vec::load(p + i + kLanes));
  }
  if (i < count) a = Vec::max(a, Vec::load(p + i));
  return Vec::reduce_max(Vec::max(a, b));
}

// Config: Dot; kRows x kVecs, the register tile; kBlockKeys, keys a block, a multiple of its width;
// kExpDegree, of the polynomial of the exponential.
template <class Config>
struct Attention {
  using Dot = typename Config::Dot;
  static constexpr bool kPairs = Dot::kPairs;
  static constexpr Elem kWord = kPairs ? Elem::Bf16 : Elem::F32;
  static constexpr std::int64_t kRows = Config::kRows;
  static constexpr std::int64_t kCols = Config::kVecs * Vec::kLanes;
  static constexpr std::int64_t kWordElems = word_elems<kWord>();
  static constexpr std::int64_t kBlockKeys = Config::kBlockKeys;
  static_assert(kBlockKeys % kCols == 0 && kCols % (2 * Vec::kLanes) == 0);

  // Scratch of a task, in words: queries [rows][q_words], sums [rows][v_cols], row state, a block
  // of keys [panel][q_words][kCols] and of values [panel][keys / kWordElems][kCols], scores of a tile.
  struct Layout {
    std::int64_t rows;     // queries a task
    std::int64_t ranges;   // tasks a head
    std::int64_t q_words;  // words of a query
    std::int64_t q_steps;  // of which in use
    std::int64_t v_cols;   // head_dim rounded up to panels

    Layout(const AttentionArgs& a, std::int64_t ranges_of_head) : ranges(ranges_of_head) {
      rows = round_up(ceil_div(a.q_len, ranges), kRows);
      q_steps = ceil_div(a.head_dim, kWordElems);
      q_words = round_up(q_steps, Vec::kLanes);
      v_cols = round_up(a.head_dim, kCols);
    }
    std::int64_t sums_at() const { return rows * q_words; }
    std::int64_t weight_at() const { return sums_at() + rows * v_cols; }
    std::int64_t top_at() const { return weight_at() + rows * Vec::kLanes; }
    std::int64_t keys_at() const { return round_up(top_at() + rows, 16); }
    std::int64_t values_at() const { return keys_at() + kBlockKeys * q_steps; }
    std::int64_t scores_at() const { return values_at() + kBlockKeys / kWordElems * v_cols; }
    std::int64_t tile_top_at() const { return scores_at() + kRows * kScoreStride; }
    std::int64_t words() const { return tile_top_at() + kRows * Vec::kLanes; }
  };
  static constexpr std::int64_t kScoreStride = kBlockKeys + 16;

  struct State {
    const AttentionArgs& a;
    Layout l;
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t first = 0;
    std::int64_t rows = 0;  // queries of this task
    Word* q = nullptr;
    float* sums = nullptr;
    float* weight = nullptr;  // [rows][lanes]: partial sums of the probabilities
    float* top = nullptr;     // [rows]: largest score so far
    Word* keys = nullptr;
    Word* values = nullptr;
    float* scores = nullptr;
    float* tile_top = nullptr;  // [kRows][lanes]: largest scores of the tile in this block
    bool plain = false;         // scores are used as they come: one positive scale, no bias
    float to_exp2 = 0;          // from scores to exponents of two
  };

  static const char* refuse(const AttentionArgs& a) noexcept {
    if (kPairs && a.elem != Elem::Bf16) return "the kernel multiplies bf16 only";
    return nullptr;
  }

  // Splits heads into ranges of queries: bounded scratch, enough tasks for an even split, but each
  // range packs all keys again.
  static std::int64_t tasks(const AttentionArgs& a, int threads) noexcept {
    constexpr std::int64_t kMaxSums = std::int64_t{1} << 18;  // elements, 1 MB
    constexpr std::int64_t kTasksPerThread = 12;
    constexpr std::int64_t kMinRows = 384;
    const std::int64_t heads = a.batch * a.heads;
    const std::int64_t most_rows = larger(kMaxSums / round_up(a.head_dim, kCols), kRows);
    std::int64_t ranges = ceil_div(a.q_len, most_rows);
    if (threads > 1) {
      const std::int64_t wanted = ceil_div(kTasksPerThread * threads, heads);
      ranges = larger(ranges, smaller(wanted, ceil_div(a.q_len, kMinRows)));
      // With more threads than tasks a repeated packing costs less than an idle thread.
      const std::int64_t least = ceil_div(threads, heads);
      ranges = larger(ranges, smaller(least, ceil_div(a.q_len, 8 * kRows)));
    }
    return heads * ranges;
  }

  static std::int64_t ranges_of(const AttentionArgs& a, std::int64_t tasks) {
    return tasks / (a.batch * a.heads);
  }

  static std::size_t scratch_bytes(const AttentionArgs& a, int threads) noexcept {
    return static_cast<std::size_t>(Layout(a, ranges_of(a, tasks(a, threads))).words()) *
           sizeof(Word);
  }

  static void start(const State& s) {
    const AttentionArgs& a = s.a;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::int64_t at = s.batch * a.q.batch + (s.first + r) * a.q.token + s.head * a.q.head;
      pack_row<kWord>(element(a.q.data, a.elem, at), a.elem, a.q.token, a.head_dim,
                      s.q + r * s.l.q_words);
    }
    fill(s.sums, s.rows * s.l.v_cols, 0);
    fill(s.weight, s.rows * Vec::kLanes, 0);
    fill(s.top, s.rows, kMinusInf);
  }

  // Starts the loads of rows [first, last) of keys or values: rows of a head lie far apart, where
  // the hardware does not look ahead, and often in the same sets of the caches, where they do not
  // stay for long.
  static void fetch_rows(const AttentionArgs& a, const void* rows, std::int64_t stride,
                         std::int64_t first, std::int64_t last) {
    const std::int64_t line = 64 / (a.elem == Elem::F32 ? 4 : 2);
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t d = 0; d < a.head_dim; d += line) {
        __builtin_prefetch(element(rows, a.elem, r * stride + d), 0, 3);
      }
    }
  }

  // Packs keys [first, first + count) and their values; both are zero up to a whole panel of keys.
  static void pack_block(const State& s, std::int64_t first, std::int64_t count) {
    const AttentionArgs& a = s.a;
    const std::int64_t kv_head = s.head / (a.heads / a.kv_heads);
    const void* k =
        element(a.k.data, a.elem, s.batch * a.k.batch + first * a.k.token + kv_head * a.k.head);
    for (std::int64_t c = 0; c < count; c += kCols) {
      fetch_rows(a, k, a.k.token, c + kCols, smaller(count, c + 2 * kCols));
      pack_panel<kWord, Config::kVecs>(element(k, a.elem, c * a.k.token), a.elem, a.k.token,
                                       count - c, a.head_dim, s.keys + c * s.l.q_steps,
                                       s.l.q_steps);
    }
    const void* v =
        element(a.v.data, a.elem, s.batch * a.v.batch + first * a.v.token + kv_head * a.v.head);
    const std::int64_t padded = round_up(count, kCols);
    constexpr std::int64_t kAhead = 16;
    for (std::int64_t t = 0; t < padded; t += kWordElems) {
      fetch_rows(a, v, a.v.token, t + kAhead, smaller(count, t + kAhead + kWordElems));
      pack_value_rows(s, element(v, a.elem, t < count ? t * a.v.token : 0), count - t,
                      s.values + t / kWordElems * kCols, padded / kWordElems * kCols);
    }
  }

  // One step of values: one row of f32, or two rows of bf16 as pairs. `left`: rows that exist.
  static void pack_value_rows(const State& s, const void* row, std::int64_t left, Word* to,
                              std::int64_t panel) {
    constexpr std::int64_t kElems = Vec::kLanes * kWordElems;
    const AttentionArgs& a = s.a;
    for (std::int64_t d = 0; d < s.l.v_cols; d += kElems) {
      Word* at = to + d / kCols * panel + d % kCols;
      const std::int64_t elems = a.head_dim - d;
      const auto load = [&](std::int64_t r) {
        if (r >= left || elems <= 0) return Vec::zero_words();
        return words_of_part<kWord>(element(row, a.elem, r * a.v.token + d), a.elem, elems);
      };
      if constexpr (kPairs) {
        Vec::W low;
        Vec::W high;
        Vec::interleave16(load(0), load(1), &low, &high);
        Vec::store_words(at, low);
        Vec::store_words(at + Vec::kLanes, high);
      } else {
        Vec::store_words(at, load(0));
      }
    }
  }

  // Scale, bias and bounds of the scores [lo, hi) of a row; `key`: the key of scores[0].
  static void adjust(const State& s, std::int64_t query, std::int64_t key, std::int64_t lo,
                     std::int64_t hi, float* scores) {
    constexpr int kLanes = Vec::kLanes;
    const AttentionArgs& a = s.a;
    KeySpan seen = keys_of_query(a, s.batch, query);
    seen = {smaller(hi, larger(lo, seen.lo - key)), smaller(hi, larger(lo, seen.hi - key))};
    if (!s.plain) {
      const float* bias = a.bias;
      if (bias != nullptr) {
        bias += s.batch * a.bias_batch + s.head * a.bias_head + query * a.bias_query + key;
      }
      const Vec::F scale = Vec::set1(a.scale);
      for (std::int64_t i = seen.lo; i < seen.hi; i += kLanes) {
        const std::int64_t n = seen.hi - i;
        Vec::F add = Vec::zero();
        if (bias != nullptr) {
          add = n >= kLanes ? Vec::load(bias + i) : load_part(bias + i, Elem::F32, n);
        }
        const Vec::F v = Vec::fma(Vec::load(scores + i), scale, add);
        if (n >= kLanes) {
          Vec::store(scores + i, v);
        } else {
          store_part(scores + i, Elem::F32, n, v);
        }
      }
    }
    fill(scores + lo, seen.lo - lo, kMinusInf);
    fill(scores + seen.hi, hi - seen.hi, kMinusInf);
  }

  // Turns a row of scores, the largest of which is `now`, into probabilities relative to the
  // largest score so far, written as words over its own beginning. `row` is the query's place in
  // the range.
  static void soften(const State& s, std::int64_t row, std::int64_t count, float now,
                     float* scores) {
    constexpr int kLanes = Vec::kLanes;
    const float before = s.top[row];
    float top = before;
    Vec::F weight = Vec::load(s.weight + row * kLanes);
    if (!(now <= before)) {  // also for NaN
      top = now;
      s.top[row] = now;
      const Vec::F shrink = exp2<5>(Vec::set1((before - now) * s.to_exp2));
      weight = Vec::mul(weight, shrink);
      float* sums = s.sums + row * s.l.v_cols;
      if (before != kMinusInf) {
        for (std::int64_t d = 0; d < s.l.v_cols; d += kLanes) {
          Vec::store(sums + d, Vec::mul(Vec::load(sums + d), shrink));
        }
      }
    }
    if (top == kMinusInf) {  // no key seen yet, unless NaN hid behind the others
      Vec::F sum = Vec::load(scores);
      for (std::int64_t i = kLanes; i < count; i += kLanes)
        sum = Vec::add(sum, Vec::load(scores + i));
      const float total = Vec::reduce_add(sum);
      if (total != total) Vec::store(s.weight + row * kLanes, Vec::set1(total));
      return fill(scores, count / kWordElems, 0);
    }
    const Vec::F scale = Vec::set1(s.to_exp2);
    const Vec::F shift = Vec::set1(-top * s.to_exp2);
    Vec::F weight2 = Vec::zero();
    for (std::int64_t i = 0; i < count; i += 2 * kLanes) {
      const Vec::F x = Vec::fma(Vec::load(scores + i), scale, shift);
      const Vec::F y = Vec::fma(Vec::load(scores + i + kLanes), scale, shift);
      const Vec::F p = exp2<Config::kExpDegree>(x);
      const Vec::F r = exp2<Config::kExpDegree>(y);
      weight = Vec::add(weight, p);
      weight2 = Vec::add(weight2, r);
      if constexpr (kPairs) {
        Vec::store_words(scores + i / 2, Vec::pack_bf16(p, r));
      } else {
        Vec::store(scores + i, p);
        Vec::store(scores + i + kLanes, r);
      }
    }
    Vec::store(s.weight + row * kLanes, Vec::add(weight, weight2));
  }

  // A tile of `rows` queries against the packed block of keys [first, first + count).
  static void attend(const State& s, std::int64_t row, std::int64_t rows, std::int64_t first,
                     std::int64_t count) {
    const KeySpan seen = keys_of_any(s.a, s.batch, s.first + row, rows);
    const std::int64_t lo = larger(seen.lo - first, 0) / kCols * kCols;
    const std::int64_t hi = round_up(smaller(seen.hi - first, count), kCols);
    if (lo >= hi) return;
    TileArgs t;
    t.a = s.q + row * s.l.q_words;
    t.lda = s.l.q_words;
    t.steps = s.l.q_steps;
    t.ldc = kScoreStride;
    t.top = s.tile_top;
    for (std::int64_t c = lo; c < hi; c += kCols) {
      t.b = s.keys + c * s.l.q_steps;
      t.c = s.scores + c;
      if (c == lo) {
        tile_rows<Dot, Config::kRows, Config::kVecs, Track::First>(t, rows);
      } else {
        tile_rows<Dot, Config::kRows, Config::kVecs, Track::Next>(t, rows);
      }
    }
    const bool bounded = s.a.causal || s.a.key_min != nullptr || s.a.key_max != nullptr;
    const bool as_is = s.plain && !bounded && hi <= count;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* scores = s.scores + r * kScoreStride;
      float now = 0;
      if (as_is) {
        now = Vec::reduce_max(Vec::load(s.tile_top + r * Vec::kLanes));
      } else {
        adjust(s, s.first + row + r, first, lo, hi, scores);
        now = largest(scores + lo, hi - lo);
      }
      soften(s, row + r, hi - lo, now, scores + lo);
    }
    const std::int64_t padded = round_up(count, kCols);
    t.a = reinterpret_cast<const Word*>(s.scores + lo);
    t.lda = kScoreStride;
    t.steps = (hi - lo) / kWordElems;
    t.ldc = s.l.v_cols;
    t.accumulate = true;
    for (std::int64_t c = 0; c < s.l.v_cols; c += kCols) {
      t.b = s.values + (c * padded + lo * kCols) / kWordElems;
      t.c = s.sums + row * s.l.v_cols + c;
      tile_rows<Dot, Config::kRows, Config::kVecs>(t, rows);
    }
  }

  // y = sums / weight; zeros where no key was seen.
  static void finish(const State& s) {
    constexpr int kLanes = Vec::kLanes;
    const AttentionArgs& a = s.a;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float weight = Vec::reduce_add(Vec::load(s.weight + r * kLanes));
      const Vec::F inverse = Vec::set1(weight == 0 ? 0 : 1 / weight);
      const float* sums = s.sums + r * s.l.v_cols;
      char* y =
          element(a.y, a.elem, s.batch * a.y_batch + (s.first + r) * a.y_token + s.head * a.y_head);
      for (std::int64_t d = 0; d < a.head_dim; d += kLanes) {
        const Vec::F v = Vec::mul(Vec::load(sums + d), inverse);
        if (a.head_dim - d >= kLanes) {
          store_as(element(y, a.elem, d), a.elem, v);
        } else {
          store_part(element(y, a.elem, d), a.elem, a.head_dim - d, v);
        }
      }
    }
  }

  static void run(const AttentionArgs& a, std::int64_t task, std::int64_t tasks,
                  void* scratch) noexcept {
    const Layout l(a, ranges_of(a, tasks));
    const std::int64_t item = task / l.ranges;
    const std::int64_t first = task % l.ranges * l.rows;
    const std::int64_t rows = smaller(l.rows, a.q_len - first);
    if (rows <= 0) return;
    Word* const w = static_cast<Word*>(scratch);
    const bool plain = a.bias == nullptr && a.scale > 0;
    const State s{a,
                  l,
                  item / a.heads,
                  item % a.heads,
                  first,
                  rows,
                  w,
                  floats(w + l.sums_at()),
                  floats(w + l.weight_at()),
                  floats(w + l.top_at()),
                  w + l.keys_at(),
                  w + l.values_at(),
                  floats(w + l.scores_at()),
                  floats(w + l.tile_top_at()),
                  plain,
                  plain ? a.scale * kLog2E : kLog2E};
    start(s);
    const KeySpan all = keys_of_any(a, s.batch, first, rows);
    for (std::int64_t key = all.lo / kBlockKeys * kBlockKeys; key < all.hi; key += kBlockKeys) {
      const std::int64_t count = smaller(kBlockKeys, a.k_len - key);
      pack_block(s, key, count);
      for (std::int64_t r = 0; r < rows; r += kRows) {
        attend(s, r, smaller(kRows, rows - r), key, count);
      }
    }
    finish(s);
  }

  static constexpr AttentionKernel kernel(const char* name, Level level) {
    return {name, level, refuse, tasks, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace difflet::cpu
