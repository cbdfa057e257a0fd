// Unary and binary runs, gated residual and group norm. See rowwise_math_inl.h for the terms of
// inclusion.
#pragma once

#include "difflet/backends/cpu/kernels/rowwise_math_inl.h"

namespace difflet::cpu {
namespace {

struct UnaryRun {
  const void* x;
  void* y;
  Elem x_elem, y_elem;
  std::int64_t n;
};

template <UnaryFn F>
void run_unary(const UnaryRun& run) noexcept {
  with_types(run.x_elem, run.y_elem, [&]<class X, class Y>() {
    const X* x = static_cast<const X*>(run.x);
    Y* y = static_cast<Y*>(run.y);
    each_vector(run.n,
                [=](auto at, std::int64_t i) { at.store(y + i, apply_unary<F>(at.load(x + i))); });
  });
}

// Conversion is exact at every level, subnormal numbers included.
void run_copy(const UnaryRun& run) noexcept {
  const std::int64_t n = run.n;
  if (run.x_elem == run.y_elem) {
    const std::int64_t bytes = run.x_elem == Elem::F32 ? 4 : 2;
    __builtin_memmove(run.y, run.x, static_cast<std::size_t>(n * bytes));
  } else if (run.y_elem == Elem::F32) {
    run_unary<UnaryFn::Copy>(run);
  } else {
    const auto* x = static_cast<const float*>(run.x);
    auto* y = static_cast<std::uint16_t*>(run.y);
    each_vector(n, [=](auto at, std::int64_t i) { at.store_exact(y + i, at.load(x + i)); });
  }
}

void unary(UnaryFn fn, const void* x, Elem xe, void* y, Elem ye, std::int64_t n) noexcept {
  const UnaryRun run{x, y, xe, ye, n};
  switch (fn) {
    case UnaryFn::Neg:
      return run_unary<UnaryFn::Neg>(run);
    case UnaryFn::Exp:
      return run_unary<UnaryFn::Exp>(run);
    case UnaryFn::Log:
      return run_unary<UnaryFn::Log>(run);
    case UnaryFn::Sin:
      return run_unary<UnaryFn::Sin>(run);
    case UnaryFn::Cos:
      return run_unary<UnaryFn::Cos>(run);
    case UnaryFn::Sqrt:
      return run_unary<UnaryFn::Sqrt>(run);
    case UnaryFn::Rsqrt:
      return run_unary<UnaryFn::Rsqrt>(run);
    case UnaryFn::Tanh:
      return run_unary<UnaryFn::Tanh>(run);
    case UnaryFn::Erf:
      return run_unary<UnaryFn::Erf>(run);
    case UnaryFn::Abs:
      return run_unary<UnaryFn::Abs>(run);
    case UnaryFn::Sigmoid:
      return run_unary<UnaryFn::Sigmoid>(run);
    case UnaryFn::GeluTanh:
      return run_unary<UnaryFn::GeluTanh>(run);
    case UnaryFn::GeluErf:
      return run_unary<UnaryFn::GeluErf>(run);
    case UnaryFn::QuickGelu:
      return run_unary<UnaryFn::QuickGelu>(run);
    case UnaryFn::Silu:
      return run_unary<UnaryFn::Silu>(run);
    case UnaryFn::Relu:
      return run_unary<UnaryFn::Relu>(run);
    case UnaryFn::Floor:
      return run_unary<UnaryFn::Floor>(run);
    case UnaryFn::Copy:
      return run_copy(run);
  }
}

// One side of a binary run. A broadcast element becomes a vector that is read at step 0.
struct BinarySide {
  alignas(64) float repeated[kWidth];
  const void* data;
  Elem elem;
  std::int64_t step;

  explicit BinarySide(const BinaryInput& in) noexcept
      : data(in.data), elem(in.elem), step(in.step) {
    if (step != 0) return;
    const float value = elem == Elem::F32 ? value_of(static_cast<const float*>(data))
                                          : value_of(static_cast<const std::uint16_t*>(data));
    for (float& lane : repeated) lane = value;
    data = repeated;
    elem = Elem::F32;
  }
  BinarySide(const BinarySide&) = delete;
  BinarySide& operator=(const BinarySide&) = delete;
};

template <BinaryFn F>
void run_binary(const BinarySide& a_side, const BinarySide& b_side, void* y_data, Elem y_elem,
                std::int64_t n) noexcept {
  with_types(a_side.elem, b_side.elem, [&]<class A, class B>() {
    const A* a = static_cast<const A*>(a_side.data);
    const B* b = static_cast<const B*>(b_side.data);
    const std::int64_t a_step = a_side.step;
    const std::int64_t b_step = b_side.step;
    with_type(y_elem, [=]<class Y>() {
      Y* y = static_cast<Y*>(y_data);
      each_vector(n, [=](auto at, std::int64_t i) {
        at.store(y + i, apply_binary<F>(at.load(a + i * a_step), at.load(b + i * b_step)));
      });
    });
  });
}

void binary(BinaryFn fn, const BinaryInput& a_in, const BinaryInput& b_in, void* y, Elem ye,
            std::int64_t n) noexcept {
  if (n <= 0) return;
  const BinarySide a(a_in);
  const BinarySide b(b_in);
  switch (fn) {
    case BinaryFn::Add:
      return run_binary<BinaryFn::Add>(a, b, y, ye, n);
    case BinaryFn::Sub:
      return run_binary<BinaryFn::Sub>(a, b, y, ye, n);
    case BinaryFn::Mul:
      return run_binary<BinaryFn::Mul>(a, b, y, ye, n);
    case BinaryFn::Div:
      return run_binary<BinaryFn::Div>(a, b, y, ye, n);
    case BinaryFn::Max:
      return run_binary<BinaryFn::Max>(a, b, y, ye, n);
    case BinaryFn::Min:
      return run_binary<BinaryFn::Min>(a, b, y, ye, n);
    case BinaryFn::Pow:
      if (b.step == 0 && b.repeated[0] == 2.0F) return run_binary<BinaryFn::Mul>(a, a, y, ye, n);
      return run_binary<BinaryFn::Pow>(a, b, y, ye, n);
  }
}

void gate_add(const GateArgs& g, std::int64_t r0, std::int64_t r1) noexcept {
  with_types(g.x.elem, g.z.elem, [&]<class X, class Z>() {
    with_type(g.y.elem, [&]<class Y>() {
      for (std::int64_t r = r0; r < r1; ++r) {
        const X* x = row_of<X>(g.x, r);
        const Z* z = row_of<Z>(g.z, r);
        Y* y = row_of<Y>(g.y, r);
        const Operand gate = operand_of(g.gate, r / g.rows_per_gate);
        each_vector(g.width, [=](auto at, std::int64_t i) {
          at.store(y + i, fma(gate.load(at, i), at.load(z + i), at.load(x + i)));
        });
      }
    });
  });
}

// Group norm walks pixels in order and keeps one accumulator a channel, for this many channels.
constexpr std::int64_t kChannelBlock = 512;
// Pixels whose f32 sums are added up before they go to the f64 sums of the groups.
constexpr std::int64_t kPixelBlock = 64;

// Adds `Pixels` rows of `n` channels and their squares to sums [n] and squares [n], and fetches what
// lies `ahead` elements further on.
template <int Pixels, class X>
void add_pixels(const X* x, std::int64_t stride, std::int64_t n, std::int64_t ahead, float* sums,
                float* squares) noexcept {
  each_vector(n, [=](auto at, std::int64_t i) {
    V sum = at.load(x + i);
    V square = sum * sum;
    __builtin_prefetch(x + ahead + i);
    for (int p = 1; p < Pixels; ++p) {
      const V v = at.load(x + p * stride + i);
      __builtin_prefetch(x + ahead + p * stride + i);
      sum = sum + v;
      square = fma(v, v, square);
    }
    at.store(sums + i, at.load(sums + i) + sum);
    at.store(squares + i, at.load(squares + i) + square);
  });
}

void group_norm_sums(const GroupNormArgs& g, std::int64_t b, std::int64_t p0, std::int64_t p1,
                     double* sums) noexcept {
  alignas(64) float channel_sums[kChannelBlock];
  alignas(64) float channel_squares[kChannelBlock];
  const std::int64_t per_group = g.channels / g.groups;
  for (std::int64_t c0 = 0; c0 < g.channels; c0 += kChannelBlock) {
    const std::int64_t n = g.channels - c0 < kChannelBlock ? g.channels - c0 : kChannelBlock;
    for (std::int64_t block = p0; block < p1; block += kPixelBlock) {
      const std::int64_t end = p1 - block < kPixelBlock ? p1 : block + kPixelBlock;
      for (std::int64_t c = 0; c < n; ++c) channel_sums[c] = channel_squares[c] = 0;
      with_type(g.x.elem, [&]<class X>() {
        std::int64_t p = block;
        for (; p + 4 <= end; p += 4) {
          const std::int64_t ahead = p + 12 <= p1 ? 8 * g.x.stride : 0;
          add_pixels<4>(row_of<X>(g.x, b * g.pixels + p) + c0, g.x.stride, n, ahead, channel_sums,
                        channel_squares);
        }
        for (; p < end; ++p) {
          add_pixels<1>(row_of<X>(g.x, b * g.pixels + p) + c0, g.x.stride, n, 0, channel_sums,
                        channel_squares);
        }
      });
      for (std::int64_t c = 0; c < n;) {
        const std::int64_t group = (c0 + c) / per_group;
        const std::int64_t group_end = (group + 1) * per_group - c0;
        double sum = 0;
        double square = 0;
        for (; c < n && c < group_end; ++c) {
          sum += static_cast<double>(channel_sums[c]);
          square += static_cast<double>(channel_squares[c]);
        }
        sums[2 * group] += sum;
        sums[2 * group + 1] += square;
      }
    }
  }
}

template <UnaryFn F>
void apply_group_norm(const GroupNormArgs& g, std::int64_t b, std::int64_t p0, std::int64_t p1,
                      const float* mean_rstd) noexcept {
  const std::int64_t per_group = g.channels / g.groups;
  alignas(64) float factor[kChannelBlock];
  alignas(64) float offset[kChannelBlock];
  for (std::int64_t c0 = 0; c0 < g.channels; c0 += kChannelBlock) {
    const std::int64_t n = g.channels - c0 < kChannelBlock ? g.channels - c0 : kChannelBlock;
    for (std::int64_t c = 0; c < n; ++c) {
      const float* group = mean_rstd + 2 * ((c0 + c) / per_group);
      factor[c] = group[1] * (g.weight != nullptr ? g.weight[c0 + c] : 1.0F);
      offset[c] = (g.bias != nullptr ? g.bias[c0 + c] : 0.0F) - group[0] * factor[c];
    }
    with_types(g.x.elem, g.y.elem, [&]<class X, class Y>() {
      for (std::int64_t p = b * g.pixels + p0; p < b * g.pixels + p1; ++p) {
        const X* x = row_of<X>(g.x, p) + c0;
        Y* y = row_of<Y>(g.y, p) + c0;
        each_vector(n, [&](auto at, std::int64_t i) {
          const V v = fma(at.load(x + i), at.load(factor + i), at.load(offset + i));
          at.store(y + i, apply_unary<F>(v));
        });
      }
    });
  }
}

void group_norm_apply(const GroupNormArgs& g, std::int64_t b, std::int64_t p0, std::int64_t p1,
                      const float* mean_rstd) noexcept {
  switch (g.act) {
    case Act::None:
      return apply_group_norm<UnaryFn::Copy>(g, b, p0, p1, mean_rstd);
    case Act::GeluTanh:
      return apply_group_norm<UnaryFn::GeluTanh>(g, b, p0, p1, mean_rstd);
    case Act::GeluErf:
      return apply_group_norm<UnaryFn::GeluErf>(g, b, p0, p1, mean_rstd);
    case Act::QuickGelu:
      return apply_group_norm<UnaryFn::QuickGelu>(g, b, p0, p1, mean_rstd);
    case Act::Silu:
      return apply_group_norm<UnaryFn::Silu>(g, b, p0, p1, mean_rstd);
    case Act::Relu:
      return apply_group_norm<UnaryFn::Relu>(g, b, p0, p1, mean_rstd);
  }
}

}  // namespace
}  // namespace difflet::cpu
