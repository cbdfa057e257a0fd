// The linear kernel over tiles (AmxTiles, or an emulation of them in tests).
//
// From the outside in (a step is 32 of K, 64 where bytes are multiplied; linear_amx_weights.h has the
// packing of weights):
//   block of rows    kBlockRows x kBlockSteps steps of x, packed as tiles [strip of 16][step][16][64 bytes];
//                    stays in L2 and meets every panel of weights
//   chunk            one panel (32 columns) x kChunkSteps steps of the weights; stays in L1 and meets
//                    every 32 rows of the block, whose tiles pass through without staying
//   2 x 2 tiles      of sums, 4 tiles of operands: one load for each product
// Between chunks the sums go through a small buffer, between blocks along K through a larger one. What
// else has to be done is spread between the products: the next chunk is fetched into L2, and the rows of
// the panel before are finished (scales, bias, activation, gate, residual, rounding) one by one.
// K is always added up in the same order, whatever the split.
//
// Weights of bytes that meet bf16 are widened chunk by chunk, into one of two buffers of a chunk: behind
// the products of a chunk the next one is widened and the one after that fetched. So what comes from far
// is half as much, and no product waits for widening but those of the first chunk.
//
// x is read in place, row by row, and packed once for all columns of a task, a block along K just before
// its first use. That costs 2 to 6 % of a product; producers could write tiles themselves only if values
// of a program had layouts, which they do not. Where bytes are multiplied, rows are quantised on the way,
// each as a whole, since its scale needs all of it; sums are whole numbers until a row is finished.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/linear_amx_few.h"
#include "difflet/backends/cpu/kernels/linear_amx_weights.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// Tuned constants. Rows and steps are multiples of 32 rows and of chunks.
struct AmxLinearConfig {
  static constexpr std::int64_t kBlockRows = 256, kBlockSteps = 32, kChunkSteps = 16;
  // From this many bytes of weights on a block has more rows: the weights come from further away.
  static constexpr std::int64_t kManyBytes = std::int64_t{32} << 20, kTallBlockRows = 384;
  // Up to this size, in bytes, a block has all of K: there are no sums to keep.
  static constexpr std::int64_t kWholeBytes = 768 << 10;
  static constexpr std::int64_t kGroupPanels = 128;  // that share a buffer of sums
  static constexpr std::int64_t kLeastRows = 128;    // of a block that is cut for more threads
  static constexpr std::int64_t kVectorRows = 8;     // up to here without tiles
};

// What rows of x are quantised for (quantize.h).
struct AmxBytes {
  static constexpr int kElems = 4, kOffset = 0;
};

template <class Kind, class Tiles, class Config>
struct AmxLinear {
  using Product = AmxProduct<Tiles, Kind::kFactors>;
  using Pending = typename Product::Pending;
  using Weights = AmxWeights<Kind>;
  using FewRows = AmxFewRows<Kind, Config::kVectorRows>;
  static constexpr std::int64_t kUnit = Product::kRows;  // rows of a block of 2 x 2 tiles
  static constexpr std::int64_t kCols = Product::kCols;  // of a panel
  static constexpr std::int64_t kStepBytes = Product::kStepBytes;
  static constexpr std::int64_t kChunkBytes = Config::kChunkSteps * kStepBytes;
  static constexpr std::int64_t kCStride = Product::kStride;

  static std::int64_t steps_of(std::int64_t k) { return Weights::steps_of(k); }
  static std::int64_t panels_of(std::int64_t n) { return Weights::panels_of(n); }

  // ---- split ------------------------------------------------------------------------------------

  static bool fits_whole(std::int64_t rows, std::int64_t steps) {
    return rows * steps * kTileRowBytes <= Config::kWholeBytes;
  }

  // Tasks are blocks of rows; where there are not enough rows, blocks of rows x groups of panels.
  static std::int64_t most_row_blocks(std::int64_t m) { return ceil_div(m, Config::kLeastRows); }

  static std::int64_t tasks(const LinearArgs& a, int threads) noexcept {
    constexpr std::int64_t kTasksPerThread = 4;
    constexpr std::int64_t kLeastPanels = 8;
    const bool tall = a.n * a.k * bytes_of(Kind::kWeight) > Config::kManyBytes &&
                      !fits_whole(Config::kBlockRows, steps_of(a.k));
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

  // Steps of K of a block: all, or as many as keep a full one's size.
  static std::int64_t block_steps(std::int64_t rows, std::int64_t all) {
    if (fits_whole(rows, all)) return all;
    const std::int64_t steps = Config::kBlockSteps * Config::kBlockRows / rows;
    return larger(Config::kBlockSteps, steps / Config::kChunkSteps * Config::kChunkSteps);
  }

  // Scratch of a task, in bytes: x as tiles, two panels of sums that are about to be finished, the sums
  // of a group of panels, two chunks of widened weights, the scales of quantised rows.
  struct Scratch {
    std::int64_t ring_at, sums_at, wide_at, scales_at, end;

    Scratch(const LinearArgs& a, const Split& cut) {
      const std::int64_t steps = steps_of(a.k);
      const bool several = steps > block_steps(cut.most_rows, steps);
      ring_at = cut.most_rows * steps * kTileRowBytes;
      sums_at = ring_at + 2 * cut.most_rows * kCStride;
      wide_at = sums_at + (several ? cut.most_panels(a) * cut.most_rows * kCStride : 0);
      scales_at = wide_at + (Kind::kWiden ? 2 * kChunkBytes : 0);
      end = scales_at + (Kind::kBytes ? cut.most_rows * 4 : 0);
    }
  };

  static std::size_t scratch_bytes(const LinearArgs& a, int threads) noexcept {
    const bool few = a.m <= Config::kVectorRows;
    return static_cast<std::size_t>(few ? FewRows::scratch_bytes(a)
                                        : Scratch(a, Split(a, tasks(a, threads))).end);
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
    const float* scale = nullptr;  // [rows], of quantised ones

    [[gnu::always_inline]] void one() {
      if (row >= end) return;
      constexpr std::int64_t kAhead = 6;
      if (row + kAhead < end) fetch_operands({*args, c, kCols, row + kAhead, 1, col, cols});
      finish({*args, c, kCols, row, 1, col, cols, scale});
      if constexpr (Kind::kBytes) ++scale;
      c += kCols;
      ++row;
    }
    void all() {
      while (row < end) one();
    }
  };

  // What is fetched while the products run: lines of the next chunk of weights, and of the sums of the
  // next panel. Where weights are widened, the next chunk's are, and the one's after that are fetched.
  struct Ahead {
    const char* weights = nullptr;
    const char* weights_end = nullptr;
    std::int64_t lines =
        1;  // of weights, behind each product; behind every second one where they are widened
    char* wide = nullptr;      // where the lines go to
    std::int64_t further = 0;  // bytes from a line to that of the chunk after
    const char* sums = nullptr;
    const char* sums_end = nullptr;

    [[gnu::always_inline]] void fetch_weights() {
      if (weights >= weights_end) return;
      for (std::int64_t i = 0; i < lines; ++i, weights += kLineBytes) {
        __builtin_prefetch(weights, 0, 2);
      }
    }
    [[gnu::always_inline]] void widen_weights() {
      for (std::int64_t i = 0; i < lines && weights < weights_end; ++i, weights += kLineBytes) {
        __builtin_prefetch(weights + further, 0, 2);
        Weights::widen(weights, wide);
        wide += 2 * kLineBytes;
      }
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
      if constexpr (!Kind::kWiden) ahead.fetch_weights();
      if constexpr (Kind::kWiden && kProduct % 2 == 1) ahead.widen_weights();
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
    char* wide;                 // [2][kChunkBytes]
    float* scales;              // [rows]

    // Steps of the block along K that starts at `step`. The first one may be short; the last, behind whose
    // products rows are finished, is not.
    std::int64_t count(std::int64_t step) const { return (steps - step - 1) % block + 1; }
    std::int64_t panel_floats() const { return strips * kTileRows * kCols; }
    const char* weights(std::int64_t panel, std::int64_t step) const {
      return static_cast<const char*>(a.packed) + (panel * steps + step) * Kind::kStoredStep;
    }
    // Steps [step, step + count) of a strip's row of x.
    char* x_row(std::int64_t step, std::int64_t count, std::int64_t r) const {
      return x + (step * strips + r / kTileRows * count) * kTileBytes +
             r % kTileRows * kTileRowBytes;
    }
  };

  // Packs steps [step, step + count) of the task's rows.
  static void pack_x(const Task& t, std::int64_t step, std::int64_t count) {
    const ConstRows& x = t.a.x;
    for (std::int64_t r = 0; r < t.strips * kTileRows; ++r) {
      char* to = t.x_row(step, count, r);
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

  // Packs the task's rows, all of K, as bytes.
  static void quantise_x(const Task& t) {
    const ConstRows& x = t.a.x;
    for (std::int64_t r = 0; r < t.strips * kTileRows; ++r) {
      const bool exists = r < t.rows;
      QuantRow from{element(x.data, x.elem, (exists ? t.row + r : 0) * x.stride), x.elem,
                    exists ? t.a.k : 0, t.a.smooth};
      from.ahead = r + 1 < t.rows ? x.stride * bytes_of(x.elem) : 0;
      const RowScale scale = row_scale(from);
      const Vec::F inverse = Vec::set1(scale.inverse);
      Vec::W unused = Vec::zero_words();
      for (std::int64_t step = 0; step < t.steps; step += t.count(step)) {
        const std::int64_t count = t.count(step);
        char* to = t.x_row(step, count, r);
        for (std::int64_t s = step; s < step + count; ++s, to += kTileBytes) {
          Vec::store_words(to,
                           quantised_words<AmxBytes>(from, s * Kind::kStepElems, inverse, &unused));
        }
      }
      if (exists) t.scales[r] = scale.scale;
    }
  }

  // A block along K: steps [step, step + count) of panels [first, last).
  struct Slice {
    std::int64_t step, count, first, last;
    std::int64_t chunks() const { return ceil_div(count, Config::kChunkSteps); }
    std::int64_t all_chunks() const { return (last - first) * chunks(); }
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

  // What is fetched, or widened, behind the products of a chunk; -1: before the first.
  static void start_fetching(const Task& t, const Slice& s, std::int64_t chunk, Ahead& ahead) {
    constexpr std::int64_t kStepLines = Kind::kStoredStep / kLineBytes;
    const std::int64_t units = larger(1, t.strips / 2);
    const std::int64_t next = chunk + 1;
    ahead.weights = t.weights(s.panel(next), s.chunk_step(next));
    const std::int64_t lines = s.chunk_steps(next) * kStepLines;
    ahead.weights_end = ahead.weights + lines * kLineBytes;
    if constexpr (!Kind::kWiden) {
      ahead.lines = ceil_div(kStepLines / 4, units);
    } else {
      ahead.wide = t.wide + next % 2 * kChunkBytes;
      ahead.further = t.weights(s.panel(next + 1), s.chunk_step(next + 1)) - ahead.weights;
      ahead.lines = chunk < 0 ? lines : ceil_div(lines, 2 * s.chunk_steps(chunk) * units);
      if (next == s.all_chunks()) ahead.weights_end = ahead.weights;
    }
  }

  // `pending` keeps `to` and writes there.
  // NOLINTBEGIN(readability-non-const-parameter)
  static void multiply_chunk(const Task& t, const Slice& s, std::int64_t chunk, const float* from,
                             float* to, Pending& pending, Slot& slot) {
    // NOLINTEND(readability-non-const-parameter)
    typename Product::Block b;
    b.strip_bytes = s.count * kTileBytes;
    b.b = Kind::kWiden ? t.wide + chunk % 2 * kChunkBytes
                       : t.weights(s.panel(chunk), s.chunk_step(chunk));
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
    if constexpr (Kind::kWiden) {
      start_fetching(t, s, -1, ahead);
      ahead.widen_weights();
    }
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
      tail.scale = Kind::kBytes ? t.scales : nullptr;
    }
    pending.store();
    tail.all();
  }

  static void run(const LinearArgs& a, std::int64_t task, std::int64_t tasks,
                  void* scratch) noexcept {
    const Split cut(a, tasks);
    const std::int64_t group = task / cut.row_blocks;
    const std::int64_t block = task % cut.row_blocks;
    const std::int64_t panels = panels_of(a.n);
    const std::int64_t begin = panels * group / cut.groups;
    const std::int64_t end = panels * (group + 1) / cut.groups;
    if (a.m <= Config::kVectorRows) {
      return FewRows::run(a, begin, end, static_cast<Word*>(scratch));
    }
    const Scratch at(a, cut);
    char* const base = static_cast<char*>(scratch);
    const std::int64_t units = ceil_div(a.m, kUnit);
    const std::int64_t row = units * block / cut.row_blocks * kUnit;
    const std::int64_t rows = smaller(units * (block + 1) / cut.row_blocks * kUnit, a.m) - row;
    const Task t{a,
                 row,
                 rows,
                 ceil_div(rows, kTileRows),
                 steps_of(a.k),
                 block_steps(cut.most_rows, steps_of(a.k)),
                 begin,
                 end,
                 base,
                 reinterpret_cast<float*>(base + at.ring_at),
                 reinterpret_cast<float*>(base + at.sums_at),
                 base + at.wide_at,
                 reinterpret_cast<float*>(base + at.scales_at)};
    if constexpr (Kind::kBytes) quantise_x(t);
    Tiles::configure();
    for (std::int64_t first = begin; first < end; first += Config::kGroupPanels) {
      for (std::int64_t step = 0; step < t.steps; step += t.count(step)) {
        const std::int64_t count = t.count(step);
        if constexpr (!Kind::kBytes) {
          if (first == begin) pack_x(t, step, count);
        }
        run_slice(t, {step, count, first, smaller(end, first + Config::kGroupPanels)});
      }
    }
    Tiles::release();
  }

  static constexpr LinearKernel kernel(const char* name) {
    return {name,
            Level::Amx,
            Weights::refuse,
            Weights::packed_bytes,
            Weights::pack,
            kCols,
            tasks,
            scratch_bytes,
            run,
            Kind::kWeight == Elem::I8,
            Kind::kProducts};
  }
};

}  // namespace
}  // namespace difflet::cpu
