// The linear kernel over tiles (AmxTiles, or an emulation of them in tests).
//
// Weights are packed as 1 KB tiles in the order in which they are used:
//   [N / 32][K / 32][2][16 pairs along K][16 columns][2]
// From the outside in:
//   block of rows    kBlockRows x kBlockSteps * 32 of x, packed as tiles [strip of 16][step][16][32];
//                    stays in L2 and meets every panel of weights
//   chunk            one panel (32 columns) x kChunkSteps * 32 of K of the weights; stays in L1 and
//                    meets every 32 rows of the block, whose tiles pass through without staying
//   2 x 2 tiles      of sums, 4 tiles of operands: one load for each product
// Between chunks the sums go through a small buffer, between blocks along K through a larger one. What
// else has to be done is spread between the products: the next chunk is fetched into L2, and the rows of
// the panel before are finished (bias, activation, gate, residual, rounding) one by one.
// K is always added up in the same order, whatever the split.
//
// x is read in place, row by row, and packed once for all columns of a task, a block along K just before
// its first use. That costs 2 to 6 % of a product; producers could write tiles themselves only if values
// of a program had layouts, which they do not.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/amx_product.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

static_assert(Vec::kLanes == 16);

// Tuned constants. Rows and steps are multiples of 32 rows and of chunks.
struct AmxLinearConfig {
  static constexpr std::int64_t kBlockRows = 256, kBlockSteps = 32, kChunkSteps = 16;
  // From this many weights on a block has more rows: the weights come from further away.
  static constexpr std::int64_t kManyWeights = std::int64_t{16} << 20, kTallBlockRows = 384;
  static constexpr std::int64_t kGroupPanels = 128;  // that share a buffer of sums
  static constexpr std::int64_t kLeastRows = 128;    // of a block that is cut for more threads
  static constexpr std::int64_t kVectorRows = 8;     // up to here without tiles
};

template <class Tiles, class Config>
struct AmxLinear {
  using Product = AmxProduct<Tiles>;
  using Pending = typename Product::Pending;
  static constexpr std::int64_t kUnit = Product::kRows;  // rows of a block of 2 x 2 tiles
  static constexpr std::int64_t kCols = Product::kCols;  // of a panel
  static constexpr std::int64_t kStepBytes = Product::kStepBytes;
  static constexpr std::int64_t kCStride = Product::kStride;

  static std::int64_t steps_of(std::int64_t k) { return ceil_div(k, kTileK); }
  static std::int64_t panels_of(std::int64_t n) { return ceil_div(n, kCols); }

  // ---- weights ----------------------------------------------------------------------------------

  static const char* refuse(const LinearDesc& d) noexcept {
    if (d.w != Elem::Bf16) return "the kernel is for weights of another type";
    if (d.x != Elem::Bf16) return "the kernel multiplies bf16 by bf16 only";
    return nullptr;
  }

  static std::size_t packed_bytes(const LinearDesc& d) noexcept {
    return static_cast<std::size_t>(panels_of(d.n) * steps_of(d.k) * kStepBytes);
  }

  static bool pack(const LinearDesc& d, const void* w, Elem src, std::int64_t n0, std::int64_t n1,
                   void* packed) noexcept {
    constexpr std::int64_t kRun = 8;  // steps read from a row before the next row
    constexpr std::int64_t kTileWords = kTileBytes / 4;
    const std::int64_t steps = steps_of(d.k);
    Vec::W bad = Vec::zero_words();
    for (std::int64_t n = n0; n < n1; n += kCols) {
      Word* panel = static_cast<Word*>(packed) + n / kCols * steps * kStepBytes / 4;
      for (std::int64_t run = 0; run < steps; run += kRun) {
        for (std::int64_t half = 0; half < 2; ++half) {
          const std::int64_t first = n + half * kTileRows;
          const std::int64_t rows = smaller(kTileRows, d.n - first);
          for (std::int64_t s = run; s < smaller(steps, run + kRun); ++s) {
            const void* at = element(w, src, (rows > 0 ? first : 0) * d.k + s * kTileK);
            bad = Vec::words_or(bad, pack_square<Elem::Bf16>(at, src, d.k, rows, d.k - s * kTileK,
                                                             panel + (2 * s + half) * kTileWords,
                                                             kTileRows, kTileRows));
          }
        }
      }
    }
    return !Vec::any(bad);
  }

  // ---- split ------------------------------------------------------------------------------------

  // Tasks are blocks of rows; where there are not enough rows, blocks of rows x groups of panels.
  static std::int64_t most_row_blocks(std::int64_t m) { return ceil_div(m, Config::kLeastRows); }

  static std::int64_t tasks(const LinearArgs& a, int threads) noexcept {
    constexpr std::int64_t kTasksPerThread = 4;
    constexpr std::int64_t kLeastPanels = 8;
    const bool tall = a.n * a.k > Config::kManyWeights;
    const std::int64_t rows = tall ? Config::kTallBlockRows : Config::kBlockRows;
    const std::int64_t blocks = ceil_div(a.m, rows);
    if (threads <= 1) return blocks;
    const std::int64_t even = round_up(blocks, threads);
    const std::int64_t most = most_row_blocks(a.m);
    if (even <= most) return even;
    const std::int64_t panels = panels_of(a.n);
    const std::int64_t wanted = ceil_div(kTasksPerThread * threads, most);
    const std::int64_t widest = a.m <= Config::kVectorRows ? panels : panels / kLeastPanels;
    const std::int64_t groups = smaller(wanted, widest);
    return most * larger(1, groups > threads ? groups / threads * threads : groups);
  }

  struct Split {
    std::int64_t row_blocks, groups;  // tasks = row_blocks * groups
    std::int64_t most_rows;           // of a block

    Split(const LinearArgs& a, std::int64_t tasks) {
      row_blocks = smaller(tasks, most_row_blocks(a.m));
      groups = tasks / row_blocks;
      most_rows = ceil_div(ceil_div(a.m, kUnit), row_blocks) * kUnit;
    }
    std::int64_t most_panels(const LinearArgs& a) const {
      return smaller(Config::kGroupPanels, ceil_div(panels_of(a.n), groups));
    }
  };

  // Steps of K of a block: as many as keep a full one's size.
  static std::int64_t block_steps(std::int64_t rows) {
    const std::int64_t steps = Config::kBlockSteps * Config::kBlockRows / rows;
    return larger(Config::kBlockSteps, steps / Config::kChunkSteps * Config::kChunkSteps);
  }

  // Scratch of a task, in bytes: x as tiles, two panels of sums that are about to be finished, the sums
  // of a group of panels. Without tiles: x in f32, the sums of a panel.
  struct Scratch {
    std::int64_t ring_at, sums_at, end;

    Scratch(const LinearArgs& a, const Split& cut) {
      const std::int64_t steps = steps_of(a.k);
      if (a.m <= Config::kVectorRows) {
        ring_at = a.m * steps * kTileK * 4;
        sums_at = end = ring_at + a.m * kCStride;
        return;
      }
      ring_at = cut.most_rows * steps * kTileRowBytes;
      sums_at = ring_at + 2 * cut.most_rows * kCStride;
      const bool several = steps > block_steps(cut.most_rows);
      end = sums_at + (several ? cut.most_panels(a) * cut.most_rows * kCStride : 0);
    }
  };

  static std::size_t scratch_bytes(const LinearArgs& a, int threads) noexcept {
    return static_cast<std::size_t>(Scratch(a, Split(a, tasks(a, threads))).end);
  }

  // ---- the rows of a panel that are still to be finished ----------------------------------------

  using Finish = void (*)(const Epilogue&);
  static Finish finish_of(Act act) {
    switch (act) {
      case Act::None:
        return epilogue<Act::None>;
      case Act::GeluTanh:
        return epilogue<Act::GeluTanh>;
      case Act::GeluErf:
        return epilogue<Act::GeluErf>;
      case Act::QuickGelu:
        return epilogue<Act::QuickGelu>;
      case Act::Silu:
        return epilogue<Act::Silu>;
      case Act::Relu:
        return epilogue<Act::Relu>;
    }
    return epilogue<Act::None>;
  }

  struct Tail {
    const LinearArgs* args = nullptr;
    Finish finish = nullptr;
    const float* c = nullptr;  // [rows][32]
    std::int64_t row = 0, end = 0;
    std::int64_t col = 0, cols = 0;

    [[gnu::always_inline]] void one() {
      if (row >= end) return;
      constexpr std::int64_t kAhead = 6;
      if (row + kAhead < end) fetch_operands({*args, c, kCols, row + kAhead, 1, col, cols});
      finish({*args, c, kCols, row, 1, col, cols});
      c += kCols;
      ++row;
    }
    void all() {
      while (row < end) one();
    }
  };

  // What is fetched while the products run: lines of the next chunk of weights, and of the sums of the
  // next panel.
  struct Ahead {
    const char* weights = nullptr;
    const char* weights_end = nullptr;
    int lines = 1;  // of weights, behind each product
    const char* sums = nullptr;
    const char* sums_end = nullptr;

    [[gnu::always_inline]] void fetch_weights() {
      if (weights >= weights_end) return;
      for (int i = 0; i < lines; ++i, weights += 64) __builtin_prefetch(weights, 0, 2);
    }
    [[gnu::always_inline]] void fetch_sums() {
      if (sums >= sums_end) return;
      __builtin_prefetch(sums, 0, 2);
      __builtin_prefetch(sums + 64, 0, 2);
      sums += 128;
    }
  };

  // What is done behind the products of tiles.
  struct Slot {
    Ahead ahead;
    Tail* tail = nullptr;

    template <int kProduct, bool kFirst>
    [[gnu::always_inline]] void behind() {
      if constexpr (kProduct == 2 && !kFirst) tail->one();
      ahead.fetch_weights();
      if constexpr (kProduct == 3) ahead.fetch_sums();
    }
  };

  // ---- a task -----------------------------------------------------------------------------------

  struct Task {
    const LinearArgs& a;
    std::int64_t row, rows;     // of x and y
    std::int64_t strips;        // of 16 rows, the last zero-padded
    std::int64_t steps, block;  // of K: all, a block's
    std::int64_t begin, end;    // panels
    char* x;                    // tiles [block along K][strip][step]
    float* ring;                // [2][strips * 16][32]
    float* sums;                // [panel][strips * 16][32]

    std::int64_t panel_floats() const { return strips * kTileRows * kCols; }
    const char* weights(std::int64_t panel, std::int64_t step) const {
      return static_cast<const char*>(a.packed) + (panel * steps + step) * kStepBytes;
    }
  };

  // Packs steps [step, step + count) of the task's rows.
  static void pack_x(const Task& t, std::int64_t step, std::int64_t count) {
    const ConstRows& x = t.a.x;
    for (std::int64_t r = 0; r < t.strips * kTileRows; ++r) {
      char* to = t.x + step * t.strips * kTileBytes + r / kTileRows * count * kTileBytes +
                 r % kTileRows * kTileRowBytes;
      const bool exists = r < t.rows;
      const std::int64_t next = r + 1 < t.rows ? x.stride : 0;
      const void* from = element(x.data, x.elem, (exists ? t.row + r : 0) * x.stride);
      for (std::int64_t s = step; s < step + count; ++s, to += kTileBytes) {
        const std::int64_t k = s * kTileK;
        __builtin_prefetch(element(from, x.elem, next + k), 0, 3);
        Vec::store_words(
            to, exists ? words_of_part<Elem::Bf16>(element(from, x.elem, k), x.elem, t.a.k - k)
                       : Vec::zero_words());
      }
    }
  }

  // A block along K: steps [step, step + count) of panels [first, last).
  struct Slice {
    std::int64_t step, count, first, last;
    std::int64_t chunks() const { return ceil_div(count, Config::kChunkSteps); }
    // Chunks are numbered through the panels.
    std::int64_t panel(std::int64_t chunk) const {
      return smaller(first + chunk / chunks(), last - 1);
    }
    std::int64_t chunk_step(std::int64_t chunk) const {
      return step + chunk % chunks() * Config::kChunkSteps;
    }
    std::int64_t chunk_steps(std::int64_t chunk) const {
      return smaller(Config::kChunkSteps, step + count - chunk_step(chunk));
    }
  };

  static void start_fetching(const Task& t, const Slice& s, std::int64_t chunk, Ahead& ahead) {
    const std::int64_t units = larger(1, t.strips / 2);
    const std::int64_t next = chunk + 1;
    ahead.weights = t.weights(s.panel(next), s.chunk_step(next));
    ahead.weights_end = ahead.weights + s.chunk_steps(next) * kStepBytes;
    ahead.lines = static_cast<int>(ceil_div(kStepBytes / 64 / 4, units));
  }

  // `pending` keeps `to` and writes there.
  // NOLINTBEGIN(readability-non-const-parameter)
  static void multiply_chunk(const Task& t, const Slice& s, std::int64_t chunk, const float* from,
                             float* to, Pending& pending, Slot& slot) {
    // NOLINTEND(readability-non-const-parameter)
    typename Product::Block b;
    b.strip_bytes = s.count * kTileBytes;
    b.b = t.weights(s.panel(chunk), s.chunk_step(chunk));
    b.steps = s.chunk_steps(chunk);
    const char* x = t.x + (s.step * t.strips + s.chunk_step(chunk) - s.step) * kTileBytes;
    for (std::int64_t strip = 0; strip < t.strips; strip += 2) {
      const int strips = strip + 1 < t.strips ? 2 : 1;
      const std::int64_t at = strip * kTileRows * kCols;
      if (pending.strips != strips) pending.store();
      b.a = x + strip * b.strip_bytes;
      b.from = from == nullptr ? nullptr : from + at;
      b.pending = pending.to;
      if (strips == 2) {
        Product::template multiply<2, Passing::Left>(b, slot);
      } else {
        Product::template multiply<1, Passing::Left>(b, slot);
      }
      pending = {to + at, strips};
    }
  }

  static void run_slice(const Task& t, const Slice& s) {
    const bool last = s.step + s.count == t.steps;
    const std::int64_t chunks = s.chunks();
    Tail tail{&t.a, finish_of(t.a.act)};
    Slot slot{{}, &tail};
    Ahead& ahead = slot.ahead;
    Pending pending;
    for (std::int64_t p = s.first; p < s.last; ++p) {
      float* const sums = t.sums + (p - s.first) * t.panel_floats();
      float* const ring = t.ring + p % 2 * t.panel_floats();
      float* const to = last ? ring : sums;
      ahead.sums = ahead.sums_end = nullptr;
      if (s.step > 0 && p + 1 < s.last) {
        ahead.sums = reinterpret_cast<const char*>(sums + t.panel_floats());
        ahead.sums_end = ahead.sums + t.panel_floats() * 4;
      }
      for (std::int64_t c = 0; c < chunks; ++c) {
        const std::int64_t chunk = (p - s.first) * chunks + c;
        const float* from = c > 0 ? to : s.step > 0 ? sums : nullptr;
        start_fetching(t, s, chunk, ahead);
        multiply_chunk(t, s, chunk, from, to, pending, slot);
      }
      if (!last) continue;
      // The tail starts before its last unit is stored, and gets there after that: a unit's first step
      // finishes no row.
      tail.all();
      tail.c = ring;
      tail.row = t.row;
      tail.end = t.row + t.rows;
      tail.col = p * kCols;
      tail.cols = smaller(kCols, t.a.n - tail.col);
    }
    pending.store();
    tail.all();
  }

  static void run(const LinearArgs& a, std::int64_t task, std::int64_t tasks,
                  void* scratch) noexcept {
    const Split cut(a, tasks);
    const Scratch at(a, cut);
    char* const base = static_cast<char*>(scratch);
    const std::int64_t group = task / cut.row_blocks;
    const std::int64_t block = task % cut.row_blocks;
    const std::int64_t panels = panels_of(a.n);
    const std::int64_t begin = panels * group / cut.groups;
    const std::int64_t end = panels * (group + 1) / cut.groups;
    if (a.m <= Config::kVectorRows) {
      return run_vector(a, begin, end, floats(static_cast<Word*>(scratch)),
                        reinterpret_cast<float*>(base + at.ring_at));
    }
    const std::int64_t units = ceil_div(a.m, kUnit);
    const std::int64_t row = units * block / cut.row_blocks * kUnit;
    const std::int64_t rows = smaller(units * (block + 1) / cut.row_blocks * kUnit, a.m) - row;
    const Task t{a,
                 row,
                 rows,
                 ceil_div(rows, kTileRows),
                 steps_of(a.k),
                 block_steps(cut.most_rows),
                 begin,
                 end,
                 base,
                 reinterpret_cast<float*>(base + at.ring_at),
                 reinterpret_cast<float*>(base + at.sums_at)};
    Tiles::configure();
    for (std::int64_t first = begin; first < end; first += Config::kGroupPanels) {
      for (std::int64_t step = 0; step < t.steps; step += t.block) {
        const std::int64_t count = smaller(t.block, t.steps - step);
        if (first == begin) pack_x(t, step, count);
        run_slice(t, {step, count, first, smaller(end, first + Config::kGroupPanels)});
      }
    }
    Tiles::release();
  }

  // ---- few rows ---------------------------------------------------------------------------------

  // A panel times kRows rows of f32: reading the weights takes longer than f32 arithmetic, and
  // vdpbf16ps runs at half its rate on the chips that have tiles.
  template <int kRows>
  static void vector_panel(const float* x, std::int64_t ldx, const char* w, std::int64_t steps,
                           float* c) {
    constexpr std::int64_t kFetch = 4 * kStepBytes;
    Vec::F acc[kRows][2];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) acc[i][0] = acc[i][1] = Vec::zero();
    for (std::int64_t step = 0; step < steps; ++step, w += kTileBytes) {
      for (std::int64_t pair = 0; pair < 16; ++pair, x += 2, w += kTileRowBytes) {
        __builtin_prefetch(w + kFetch, 0, 2);
        __builtin_prefetch(w + kFetch + kTileBytes, 0, 2);
        const Vec::W w0 = Vec::load_words(w);
        const Vec::W w1 = Vec::load_words(w + kTileBytes);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const Vec::F even = Vec::set1(x[i * ldx]);
          const Vec::F odd = Vec::set1(x[i * ldx + 1]);
          acc[i][0] = Vec::fma(even, Vec::low_bf16(w0), acc[i][0]);
          acc[i][1] = Vec::fma(even, Vec::low_bf16(w1), acc[i][1]);
          acc[i][0] = Vec::fma(odd, Vec::high_bf16(w0), acc[i][0]);
          acc[i][1] = Vec::fma(odd, Vec::high_bf16(w1), acc[i][1]);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Vec::store(c + i * kCols, acc[i][0]);
      Vec::store(c + i * kCols + 16, acc[i][1]);
    }
  }

  template <int kRows>
  static void vector_rows(const float* x, std::int64_t ldx, const char* w, std::int64_t steps,
                          float* c, std::int64_t rows) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return vector_rows<kRows - 1>(x, ldx, w, steps, c, rows);
    }
    vector_panel<kRows>(x, ldx, w, steps, c);
  }

  static void run_vector(const LinearArgs& a, std::int64_t begin, std::int64_t end, float* x,
                         float* c) {
    const std::int64_t steps = steps_of(a.k);
    const std::int64_t ldx = steps * kTileK;
    for (std::int64_t r = 0; r < a.m; ++r) {
      for (std::int64_t k = 0; k < ldx; k += kTileK) {
        alignas(64) std::uint16_t part[kTileK];
        Vec::store_words(part,
                         words_of_part<Elem::Bf16>(element(a.x.data, a.x.elem, r * a.x.stride + k),
                                                   a.x.elem, a.k - k));
        Vec::store(x + r * ldx + k, Vec::load_bf16(part));
        Vec::store(x + r * ldx + k + 16, Vec::load_bf16(part + 16));
      }
    }
    for (std::int64_t p = begin; p < end; ++p) {
      const char* w = static_cast<const char*>(a.packed) + p * steps * kStepBytes;
      vector_rows<Config::kVectorRows>(x, ldx, w, steps, c, a.m);
      run_epilogue({a, c, kCols, 0, a.m, p * kCols, smaller(kCols, a.n - p * kCols)});
    }
  }

  static constexpr LinearKernel kernel(const char* name) {
    return {name, Level::Amx, refuse, packed_bytes, pack, kCols, tasks, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace difflet::cpu
