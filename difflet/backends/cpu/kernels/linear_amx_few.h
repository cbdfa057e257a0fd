// Products of so few rows that reading the weights takes longer than vector arithmetic: without tiles, over
// weights that are packed for them.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/linear_amx_weights.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

template <class Kind, int kMostRows>
struct AmxFewRows {
  using Weights = AmxWeights<Kind>;
  using Few = typename Kind::Few;
  static constexpr std::int64_t kCols = Weights::kCols;
  static constexpr std::int64_t kStepWords = Kind::kLines * Few::kSteps;  // of a row of x

  // Scratch of a task: x as words that Few multiplies, the sums of a panel, scales and starts of the sums
  // of rows that are quantised.
  struct Scratch {
    std::int64_t ldx, sums_at, scales_at, starts_at, words;

    explicit Scratch(const LinearArgs& a) {
      ldx = Weights::steps_of(a.k) * kStepWords;
      sums_at = a.m * ldx;
      scales_at = sums_at + a.m * kCols;
      starts_at = scales_at + (Kind::kBytes ? a.m : 0);
      words = starts_at + (Kind::kBytes ? a.m : 0);
    }
  };

  static std::int64_t scratch_bytes(const LinearArgs& a) { return Scratch(a).words * 4; }

  // Panels [begin, end).
  static void run(const LinearArgs& a, std::int64_t begin, std::int64_t end, Word* scratch) {
    const Scratch at(a);
    float* const sums = floats(scratch + at.sums_at);
    Epilogue e{a, sums, kCols, 0, a.m, 0, 0};
    const std::int32_t* starts = nullptr;
    if constexpr (Kind::kBytes) {
      auto* const to = reinterpret_cast<std::int32_t*>(scratch + at.starts_at);
      quantise(a, at, scratch, floats(scratch + at.scales_at), to);
      e.row_scale = floats(scratch + at.scales_at);
      starts = to;
    } else {
      widen_x(a, at, scratch);
    }
    const std::int64_t steps = Weights::steps_of(a.k);
    for (std::int64_t p = begin; p < end; ++p) {
      const char* w = static_cast<const char*>(a.packed) + p * Weights::panel_bytes(a.k);
      panel_rows<kMostRows>({scratch, at.ldx, w, steps, starts, sums}, a.m);
      e.col = p * kCols;
      e.cols = smaller(kCols, a.n - e.col);
      run_epilogue(e);
    }
  }

 private:
  static void widen_x(const LinearArgs& a, const Scratch& at, Word* to) {
    for (std::int64_t r = 0; r < a.m; ++r) {
      for (std::int64_t k = 0; k < at.ldx; k += kTileK) {
        alignas(kLineBytes) std::uint16_t part[kTileK];
        Vec::store_words(part,
                         words_of_part<Elem::Bf16>(element(a.x.data, a.x.elem, r * a.x.stride + k),
                                                   a.x.elem, a.k - k));
        Vec::store(floats(to + r * at.ldx + k), Vec::load_bf16(part));
        Vec::store(floats(to + r * at.ldx + k + 16), Vec::load_bf16(part + 16));
      }
    }
  }

  static void quantise(const LinearArgs& a, const Scratch& at, Word* to, float* scales,
                       std::int32_t* starts) {
    for (std::int64_t r = 0; r < a.m; ++r) {
      const QuantRow row{element(a.x.data, a.x.elem, r * a.x.stride), a.x.elem, a.k, a.smooth};
      const RowScale scale = row_scale(row);
      scales[r] = scale.scale;
      starts[r] = -Few::kOffset * quantise_row<Few>(row, scale.inverse, 0, a.k, to + r * at.ldx);
    }
  }

  struct Panel {
    const Word* x;
    std::int64_t ldx;
    const char* w;  // [steps][2][lines]
    std::int64_t steps;
    const std::int32_t* starts;  // of the sums; null: zero
    float* sums;                 // [rows][kCols], of Few's kind
  };

  template <int kRows>
  static void panel(const Panel& t) {
    constexpr std::int64_t kFetch = 4 * Kind::kStoredStep;
    const Word* x = t.x;
    const char* w = t.w;
    const std::int64_t ldx = t.ldx;
    typename Few::Sum acc[kRows][2];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      typename Few::Sum start = Few::zero();
      if constexpr (Kind::kBytes) start = Vec::set1_word(t.starts[i]);
      acc[i][0] = acc[i][1] = start;
    }
    for (std::int64_t step = 0; step < t.steps; ++step, w += Kind::kStoredTile) {
      for (std::int64_t line = 0; line < Kind::kLines; ++line, x += Few::kSteps, w += kLineBytes) {
        __builtin_prefetch(w + kFetch, 0, 2);
        __builtin_prefetch(w + kFetch + Kind::kStoredTile, 0, 2);
        const Vec::W w0 = Vec::load_words(w);
        const Vec::W w1 = Vec::load_words(w + Kind::kStoredTile);
#pragma GCC unroll 4
        for (int s = 0; s < Few::kSteps; ++s) {
          const auto b0 = Few::operand(w0, s);
          const auto b1 = Few::operand(w1, s);
#pragma GCC unroll 8
          for (int i = 0; i < kRows; ++i) {
            const auto a = Few::broadcast(x + i * ldx + s);
            acc[i][0] = Few::add(acc[i][0], a, b0);
            acc[i][1] = Few::add(acc[i][1], a, b1);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Few::store_sum(t.sums + i * kCols, acc[i][0]);
      Few::store_sum(t.sums + i * kCols + 16, acc[i][1]);
    }
  }

  template <int kRows>
  static void panel_rows(const Panel& t, std::int64_t rows) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return panel_rows<kRows - 1>(t, rows);
    }
    panel<kRows>(t);
  }
};

}  // namespace
}  // namespace difflet::cpu
