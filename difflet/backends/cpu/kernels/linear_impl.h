// The linear kernel, written once over the Vec and Dot of the including unit.
//
// Weights are packed in the order in which they are used:
//   [block of panels][chunk of K][panel][step][column of the panel]
// so that "what comes next" is always the following memory. One task is a block of rows times a
// group of panels: it walks its weights once, and packs its rows of x, chunk by L2-sized chunk,
// while it is at the first block; x of a single block of rows is read where it lies, if it can be.
// K is always added up in the same order, whatever the split.
// Private to the kernel units; include after one vec_*.h.
#pragma once

#include <cstdint>

#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/kernels/pack.h"
#include "difflet/backends/cpu/kernels/quantize.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// y = residual + mul * act(c * scale + bias) for a tile of rows.
struct Epilogue {
  const LinearArgs& args;
  const float* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t row = 0, rows = 0;  // of y
  std::int64_t col = 0, cols = 0;
  const float* row_scale = nullptr;  // [rows] when the sums in c are integers
};

// Starts the loads of what the epilogue reads and writes in far memory, a tile's time ahead.
inline void fetch_operands(const Epilogue& e) {
  const LinearArgs& a = e.args;
  const auto fetch = [&](const void* data, Elem elem, std::int64_t stride) {
    if (data == nullptr || stride == 0) return;
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const char* p = element(data, elem, (e.row + i) * stride + e.col);
      const char* end = element(data, elem, (e.row + i) * stride + e.col + e.cols);
      for (; p < end; p += 64) __builtin_prefetch(p, 0, 3);
    }
  };
  fetch(a.mul.data, a.mul.elem, a.mul.stride);
  fetch(a.residual.data, a.residual.elem, a.residual.stride);
  if (a.residual.data != a.y.data) fetch(a.y.data, a.y.elem, a.y.stride);
}

// Places of the operands in one row; null when absent.
struct RowEnds {
  const char* scale;
  const char* bias;
  const char* mul;
  const char* residual;
  char* y;
};

// One vector at column j; `count` < kLanes elements of it exist, or kWhole. kScaled: row.scale is there.
template <Act kAct, bool kScaled, bool kWhole>
inline void finish(const LinearArgs& a, const RowEnds& row, std::int64_t j, std::int64_t count,
                   Vec::F v) {
  const auto load = [&](const char* p, Elem e) {
    const char* at = element(p, e, j);
    return kWhole ? load_as(at, e) : load_part(at, e, count);
  };
  if constexpr (kScaled) v = Vec::mul(v, load(row.scale, Elem::F32));
  if (row.bias != nullptr) v = Vec::add(v, load(row.bias, Elem::F32));
  v = activate<kAct>(v);
  if (row.mul != nullptr) v = Vec::mul(v, load(row.mul, a.mul.elem));
  if (row.residual != nullptr) v = Vec::add(v, load(row.residual, a.residual.elem));
  char* y = element(row.y, a.y.elem, j);
  if constexpr (kWhole) {
    store_as(y, a.y.elem, v);
  } else {
    store_part(y, a.y.elem, count, v);
  }
}

// kLanes sums of the tile's row i; only those of scaled weights can be integers.
template <bool kScaled>
inline Vec::F sums(const Epilogue& e, std::int64_t i, const float* c) {
  if (!kScaled || e.row_scale == nullptr) return Vec::load(c);
  return Vec::mul(Vec::from_ints(Vec::load_words(c)), Vec::set1(e.row_scale[i]));
}

template <Act kAct, bool kScaled>
void epilogue_rows(const Epilogue& e) {
  const LinearArgs& a = e.args;
  const auto at = [&](const ConstRows& r, std::int64_t row) {
    return r.data == nullptr ? nullptr : element(r.data, r.elem, row * r.stride + e.col);
  };
  const auto column = [&](const float* v) {
    return v == nullptr ? nullptr : element(v, Elem::F32, e.col);
  };
  const std::int64_t whole = e.cols / Vec::kLanes * Vec::kLanes;
  for (std::int64_t i = 0; i < e.rows; ++i) {
    const std::int64_t row = e.row + i;
    const RowEnds ends{column(a.scale), column(a.bias), at(a.mul, row), at(a.residual, row),
                       element(a.y.data, a.y.elem, row * a.y.stride + e.col)};
    const float* c = e.c + i * e.ldc;
    for (std::int64_t j = 0; j < whole; j += Vec::kLanes) {
      finish<kAct, kScaled, true>(a, ends, j, 0, sums<kScaled>(e, i, c + j));
    }
    if (whole < e.cols) {
      finish<kAct, kScaled, false>(a, ends, whole, e.cols - whole, sums<kScaled>(e, i, c + whole));
    }
  }
}

template <Act kAct>
void epilogue(const Epilogue& e) {
  e.args.scale != nullptr ? epilogue_rows<kAct, true>(e) : epilogue_rows<kAct, false>(e);
}

inline void run_epilogue(const Epilogue& e) {
  switch (e.args.act) {
    case Act::None:
      return epilogue<Act::None>(e);
    case Act::GeluTanh:
      return epilogue<Act::GeluTanh>(e);
    case Act::GeluErf:
      return epilogue<Act::GeluErf>(e);
    case Act::QuickGelu:
      return epilogue<Act::QuickGelu>(e);
    case Act::Silu:
      return epilogue<Act::Silu>(e);
    case Act::Relu:
      return epilogue<Act::Relu>(e);
  }
}

// Config: Dot; kWeight, the storage of the weights; kRows x kVecs, the register tile; kBlockRows,
// rows of x a task; kChunk, packed steps between two visits of an accumulator tile; kBlockPanels,
// panels that share a chunk of x while it is in L2.
template <class Config>
struct Linear {
  using Dot = typename Config::Dot;
  static constexpr std::int64_t kStepElems = word_elems<Config::kWeight>();
  // Of packed x, unless Dot::kInts.
  static constexpr Elem kXElem = Dot::kPairs ? Elem::Bf16 : Elem::F32;
  static constexpr std::int64_t kStepsPerStored = kStepElems / Dot::kElems;
  static constexpr bool kWiden = kStepsPerStored > 1;  // weights of fewer bits than the arithmetic
  static constexpr std::int64_t kCols = Config::kVecs * Vec::kLanes;
  static constexpr std::int64_t kBlockCols = kCols * Config::kBlockPanels;
  static constexpr std::int64_t kAlign = 16;                        // words in 64 bytes
  static constexpr std::int64_t kMostInts = std::int64_t{1} << 17;  // times 127 * 127 fits 32 bits
  static constexpr int kDirectRows = 4;  // of a tile that widens weights in registers

  struct Layout {
    std::int64_t steps;  // stored steps of K
    std::int64_t chunk;  // stored steps a chunk
    std::int64_t panels;

    std::int64_t chunk_steps(std::int64_t first) const { return smaller(chunk, steps - first); }
    std::int64_t blocks() const { return ceil_div(panels, Config::kBlockPanels); }
    std::int64_t block_panels(std::int64_t block) const {
      return smaller(Config::kBlockPanels, panels - block * Config::kBlockPanels);
    }
    std::int64_t offset(std::int64_t block, std::int64_t first_step, std::int64_t panel) const {
      return kCols * (block * Config::kBlockPanels * steps + first_step * block_panels(block) +
                      panel * chunk_steps(first_step));
    }
    std::int64_t words() const { return kCols * panels * steps; }
  };
  static Layout layout(std::int64_t n, std::int64_t k) {
    const std::int64_t steps = ceil_div(k, kStepElems);
    const std::int64_t chunk = ceil_div(steps, ceil_div(steps, Config::kChunk));
    return {steps, round_up(chunk, Vec::kLanes), ceil_div(n, kCols)};
  }

  // How a product is split: row blocks x groups of panels.
  struct Split {
    std::int64_t row_blocks, rows;
  };
  static Split split(std::int64_t m) {
    const std::int64_t blocks = ceil_div(m, Config::kBlockRows);
    return {blocks, round_up(ceil_div(m, blocks), Config::kRows)};
  }

  // Scratch of a task: x [chunk][rows][lda], accumulators [rows][kBlockCols], a widened panel; of rows
  // that are quantised their scales and where their sums start.
  struct Scratch {
    std::int64_t lda, rows, chunks, chunk_steps;

    explicit Scratch(const LinearArgs& a) {
      const Layout l = layout(a.n, a.k);
      chunk_steps = l.chunk * kStepsPerStored;
      lda = round_up(chunk_steps, kAlign) + kAlign;  // odd in cache lines: spreads over the sets
      rows = split(a.m).rows;
      chunks = ceil_div(l.steps, l.chunk);
    }
    std::int64_t acc_at() const { return chunks * rows * lda; }
    std::int64_t panel_at() const { return acc_at() + rows * kBlockCols; }
    std::int64_t scales_at() const { return panel_at() + (kWiden ? chunk_steps * kCols : 0); }
    std::int64_t starts_at() const { return scales_at() + (Dot::kInts ? rows : 0); }
    std::int64_t words() const { return starts_at() + (Dot::kInts ? rows : 0); }
  };

  static const char* refuse(const LinearDesc& d) noexcept {
    if (d.w != Config::kWeight) return "the kernel is for weights of another type";
    if (Dot::kInts != (d.products == Products::Bytes)) return "the kernel multiplies otherwise";
    if (Dot::kInts && d.k > kMostInts)
      return "sums of so many products of bytes do not fit 32 bits";
    if (!Dot::kInts && Dot::kPairs && d.x != Elem::Bf16) {
      return "the kernel multiplies bf16 by bf16 only";
    }
    return nullptr;
  }

  static std::size_t packed_bytes(const LinearDesc& d) noexcept {
    return static_cast<std::size_t>(layout(d.n, d.k).words()) * sizeof(Word);
  }

  static bool pack(const LinearDesc& d, const void* w, Elem src, std::int64_t n0, std::int64_t n1,
                   void* packed) noexcept {
    const Layout l = layout(d.n, d.k);
    Vec::W bad = Vec::zero_words();
    for (std::int64_t block = n0 / kBlockCols; block < ceil_div(n1, kBlockCols); ++block) {
      for (std::int64_t s = 0; s < l.steps; s += l.chunk) {
        for (std::int64_t p = 0; p < l.block_panels(block); ++p) {
          const std::int64_t n = block * kBlockCols + p * kCols;
          const std::int64_t k = s * kStepElems;
          Word* const to = static_cast<Word*>(packed) + l.offset(block, s, p);
          const Vec::W b = pack_panel<Config::kWeight, Config::kVecs>(
              element(w, src, n * d.k + k), src, d.k, smaller(kCols, d.n - n), d.k - k, to,
              l.chunk_steps(s));
          bad = Vec::words_or(bad, b);
          if constexpr (Config::kWeight == Elem::I8) {
            for (std::int64_t i = 0; i < l.chunk_steps(s) * kCols; i += Vec::kLanes) {
              Vec::store_words(to + i, Dot::stored(Vec::load_words(to + i)));
            }
          }
        }
      }
    }
    return !Vec::any(bad);
  }

  // One group of all weights unless that gives too few tasks: narrow groups repeat the packing of
  // x.
  static std::int64_t tasks(const LinearArgs& a, int threads) noexcept {
    constexpr std::int64_t kTasksPerThread = 8;
    // Columns of a group where each thread has one; fewer where some would have none.
    constexpr std::int64_t kUsualCols = 768, kMinCols = 256;
    const Layout l = layout(a.n, a.k);
    const std::int64_t row_blocks = split(a.m).row_blocks;
    std::int64_t wanted = 1;
    if (threads > 1) wanted = larger(1, ceil_div(kTasksPerThread * threads, row_blocks));
    const bool narrow = a.m > 2 * Config::kRows;
    const std::int64_t wide = larger(a.n / kUsualCols, smaller(threads, a.n / kMinCols));
    const std::int64_t most = narrow ? larger(1, wide) : l.panels;
    return row_blocks * even_groups(row_blocks, smaller(wanted, smaller(most, l.panels)), threads);
  }

  // The number of groups up to `most` that leaves threads idle for the smallest part of the time.
  static std::int64_t even_groups(std::int64_t row_blocks, std::int64_t most,
                                  int threads) noexcept {
    const auto turns = [&](std::int64_t tasks) { return ceil_div(tasks, threads) * threads; };
    std::int64_t best = most;
    for (std::int64_t groups = most - 1; groups > 0; --groups) {
      const std::int64_t tasks = row_blocks * groups;
      if (tasks * turns(row_blocks * best) > row_blocks * best * turns(tasks)) best = groups;
    }
    return best;
  }

  static std::size_t scratch_bytes(const LinearArgs& a, int /*threads*/) noexcept {
    return static_cast<std::size_t>(Scratch(a).words()) * sizeof(Word);
  }

  static const char* x_row(const LinearArgs& a, std::int64_t row) {
    return element(a.x.data, a.x.elem, row * a.x.stride);
  }

  // Whether rows of x are rows of a tile as they are. Many rows are packed all the same: that costs nothing
  // beside their products, and a block's rows then lie next to each other.
  static bool in_place(const LinearArgs& a) {
    return !Dot::kInts && a.m <= Config::kBlockRows && a.x.elem == kXElem &&
           a.k % kStepElems == 0 && a.x.stride % Dot::kElems == 0 &&
           reinterpret_cast<std::uintptr_t>(a.x.data) % sizeof(Word) == 0;
  }

  static void pack_x(const LinearArgs& a, const Scratch& s, std::int64_t chunk, std::int64_t row,
                     std::int64_t rows, Word* x) {
    const std::int64_t chunk_elems = s.chunk_steps * Dot::kElems;
    const std::int64_t k = chunk * chunk_elems;
    const std::int64_t elems = smaller(chunk_elems, a.k - k);
    for (std::int64_t r = 0; r < rows; ++r) {
      pack_row<kXElem>(element(x_row(a, row + r), a.x.elem, k), a.x.elem,
                       r + 1 < rows ? a.x.stride : 0, elems, x + (chunk * s.rows + r) * s.lda);
    }
  }

  // All chunks at once: a row's scale is known when all of it has been seen.
  static void quantise_x(const LinearArgs& a, const Scratch& s, std::int64_t row, std::int64_t rows,
                         Word* x) {
    float* const scales = floats(x + s.scales_at());
    const std::int64_t chunk_elems = s.chunk_steps * Dot::kElems;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t ahead = r + 1 < rows ? a.x.stride * bytes_of(a.x.elem) : 0;
      const QuantRow from{x_row(a, row + r), a.x.elem, a.k, a.smooth, ahead};
      const RowScale scale = row_scale(from);
      std::uint32_t sum = 0;
      for (std::int64_t c = 0; c < s.chunks; ++c) {
        const std::int64_t k = c * chunk_elems;
        sum += quantise_row<Dot>(from, scale.inverse, k, smaller(a.k, k + chunk_elems),
                                 x + (c * s.rows + r) * s.lda);
      }
      scales[r] = scale.scale;
      starts(s, x)[r] = static_cast<std::int32_t>(0U - std::uint32_t{Dot::kOffset} * sum);
    }
  }

  static std::int32_t* starts(const Scratch& s, Word* x) {
    return reinterpret_cast<std::int32_t*>(x + s.starts_at());
  }

  static void widen(const Word* from, std::int64_t stored_steps, Word* to) {
    for (std::int64_t i = 0; i < stored_steps; ++i, from += kCols, to += kStepsPerStored * kCols) {
#pragma GCC unroll 8
      for (std::int64_t c = 0; c < kCols; c += Vec::kLanes) {
        const Vec::W stored = Vec::load_words(from + c);
#pragma GCC unroll 4
        for (int step = 0; step < kStepsPerStored; ++step) {
          Vec::store_words(to + step * kCols + c,
                           Dot::template widen<Config::kWeight>(stored, step));
        }
      }
    }
  }

  // Spreads the fetching of the next panel chunk (as large as this one) over the tiles of this one.
  static void fetch_ahead(TileArgs* t, const Word* next, std::int64_t stored_steps,
                          std::int64_t tiles, std::int64_t* tile_bytes) {
    const std::int64_t lines = ceil_div(stored_steps * kCols, kAlign);
    const std::int64_t tile_lines = ceil_div(lines, tiles);
    // Two tiles of weights as they are read faster than they could be fetched this way.
    if (!kWiden && tiles < 3) return;
    t->ahead = reinterpret_cast<const char*>(next);
    t->ahead_bytes = ceil_div(tile_lines, t->steps) * 64;
    t->ahead_every = larger(1, t->steps / tile_lines);
    *tile_bytes = tile_lines * 64;
  }

  static void run(const LinearArgs& a, std::int64_t task, std::int64_t tasks,
                  void* scratch) noexcept {
    const Layout l = layout(a.n, a.k);
    const Split cut = split(a.m);
    const Scratch s(a);
    Word* const x = static_cast<Word*>(scratch);
    const std::int64_t groups = tasks / cut.row_blocks;
    const std::int64_t group = task / cut.row_blocks;
    const std::int64_t row = task % cut.row_blocks * cut.rows;
    const std::int64_t rows = smaller(cut.rows, a.m - row);
    if (rows <= 0) return;
    const std::int64_t begin = l.panels * group / groups;
    const std::int64_t end = l.panels * (group + 1) / groups;
    const std::int64_t first = begin / Config::kBlockPanels;
    if constexpr (Dot::kInts) quantise_x(a, s, row, rows, x);
    for (std::int64_t block = first; block * Config::kBlockPanels < end; ++block) {
      const std::int64_t at = block * Config::kBlockPanels;
      const std::int64_t last = smaller(end - at, l.block_panels(block));
      for (std::int64_t step = 0; step < l.steps; step += l.chunk) {
        if constexpr (!Dot::kInts) {
          if (block == first && !in_place(a)) pack_x(a, s, step / l.chunk, row, rows, x);
        }
        for (std::int64_t p = larger(begin - at, 0); p < last; ++p) {
          run_panel(a, l, s, {block, step, p}, row, rows, x);
        }
      }
    }
  }

  // So few rows widen weights in registers, twice if there are more rows than free registers.
  static bool direct(std::int64_t rows) { return kWiden && rows <= 2 * kDirectRows; }

  static std::int64_t tile_height(std::int64_t rows) {
    if (!direct(rows)) return Config::kRows;
    return rows <= kDirectRows ? rows : ceil_div(rows, 2);
  }

  static void multiply(const TileArgs& t, std::int64_t rows, std::int64_t all_rows) {
    if constexpr (kWiden) {
      if (direct(all_rows)) {
        return tile_rows<Widening<Dot, Config::kWeight>, kDirectRows, Config::kVecs>(t, rows);
      }
    }
    tile_rows<Dot, Config::kRows, Config::kVecs>(t, rows);
  }

  struct At {
    std::int64_t block, step, panel;
  };
  static void run_panel(const LinearArgs& a, const Layout& l, const Scratch& s, const At& at,
                        std::int64_t row, std::int64_t rows, Word* x) {
    const std::int64_t stored = l.chunk_steps(at.step);
    const bool last = at.step + stored >= l.steps;
    const std::int64_t col = at.block * kBlockCols + at.panel * kCols;
    const std::int64_t height = tile_height(rows);
    TileArgs t;
    t.b = static_cast<const Word*>(a.packed) + l.offset(at.block, at.step, at.panel);
    t.steps = direct(rows) ? stored : stored * kStepsPerStored;
    t.lda = s.lda;
    t.ldc = kBlockCols;
    t.accumulate = at.step > 0;
    std::int64_t tile_bytes = 0;
    fetch_ahead(&t, t.b + stored * kCols, stored, ceil_div(rows, height), &tile_bytes);
    if constexpr (kWiden) {
      if (!direct(rows)) {
        widen(t.b, stored, x + s.panel_at());
        t.b = x + s.panel_at();
      }
    }
    const Word* chunk = x + at.step / l.chunk * s.rows * s.lda;
    if (in_place(a)) {
      chunk = reinterpret_cast<const Word*>(x_row(a, row)) + at.step * kStepsPerStored;
      t.lda = a.x.stride / Dot::kElems;
    }
    float* acc = floats(x + s.acc_at()) + at.panel * kCols;
    for (std::int64_t r = 0; r < rows; r += height, t.ahead += tile_bytes) {
      const std::int64_t n = smaller(height, rows - r);
      t.a = chunk + r * t.lda;
      t.c = acc + r * kBlockCols;
      Epilogue e{a, t.c, t.ldc, row + r, n, col, smaller(kCols, a.n - col)};
      if constexpr (Dot::kInts) {
        t.start = starts(s, x) + r;
        e.row_scale = floats(x + s.scales_at()) + r;
      }
      if (last) fetch_operands(e);
      multiply(t, n, rows);
      if (last) run_epilogue(e);
    }
  }

  static constexpr LinearKernel kernel(const char* name, Level level) {
    return {name,
            level,
            refuse,
            packed_bytes,
            pack,
            kBlockCols,
            tasks,
            scratch_bytes,
            run,
            Config::kWeight == Elem::I8,
            Dot::kInts ? Products::Bytes : Products::Floats};
  }
};

}  // namespace
}  // namespace difflet::cpu
