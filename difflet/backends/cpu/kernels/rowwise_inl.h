// Norms, rotary embedding and softmax, and the table of a level. See rowwise_math_inl.h for the
// terms of inclusion.
#pragma once

#include "difflet/backends/cpu/kernels/rowwise_elementwise_inl.h"
#include "difflet/backends/cpu/kernels/rowwise_math_inl.h"

namespace difflet::cpu {
namespace {

// Sum over a row of term(x); four accumulators hide the latency and keep the digits.
template <class X, class Term>
[[gnu::always_inline]] inline float sum_row(const X* x, std::int64_t n, Term term) noexcept {
  V a[4] = {splat(0.0F), splat(0.0F), splat(0.0F), splat(0.0F)};
  std::int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    V v[4];
    load_two(x + i, &v[0], &v[1]);
    load_two(x + i + 2 * kWidth, &v[2], &v[3]);
    for (int k = 0; k < 4; ++k) a[k] = a[k] + term(v[k]);
  }
  for (; i + kWidth <= n; i += kWidth) a[0] = a[0] + term(load(x + i));
  if constexpr (kWidth > 1) {
    const int rest = static_cast<int>(n - i);
    if (rest > 0) a[1] = a[1] + keep_n(term(load_n(x + i, rest)), rest);
  }
  return sum((a[0] + a[1]) + (a[2] + a[3]));
}

// Sums of x - shift and of its square; meanwhile fetches the row `next`.
template <class X>
inline void centered_sums(const X* x, std::int64_t n, const X* next, V shift, float* first,
                          float* second) noexcept {
  V s[2] = {splat(0.0F), splat(0.0F)};
  V q[4] = {s[0], s[0], s[0], s[0]};
  std::int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    V v[4];
    load_two(x + i, &v[0], &v[1]);
    load_two(x + i + 2 * kWidth, &v[2], &v[3]);
    for (int k = 0; k < 4; ++k) {
      __builtin_prefetch(next + i + k * kWidth);
      v[k] = v[k] - shift;
      q[k] = fma(v[k], v[k], q[k]);
    }
    s[0] = s[0] + (v[0] + v[1]);
    s[1] = s[1] + (v[2] + v[3]);
  }
  const auto rest = [&](V v) {
    s[0] = s[0] + v;
    q[0] = fma(v, v, q[0]);
  };
  for (; i + kWidth <= n; i += kWidth) rest(load(x + i) - shift);
  if constexpr (kWidth > 1) {
    const int left = static_cast<int>(n - i);
    if (left > 0) rest(keep_n(load_n(x + i, left) - shift, left));
  }
  *first = sum(s[0] + s[1]);
  *second = sum((q[0] + q[1]) + (q[2] + q[3]));
}

struct RowStats {
  float mean, rstd;
};

template <class X>
inline RowStats rms_stats(const X* x, std::int64_t n, float eps) noexcept {
  const float squares = sum_row(x, n, [](V v) { return v * v; });
  return {0.0F, 1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + eps)};
}

// The second pass works around the mean of the first and corrects it, so that a mean far larger
// than the deviation costs no digits (Chan, Golub, LeVeque 1983: corrected two-pass).
template <class X>
inline RowStats layer_stats(const X* x, std::int64_t n, const X* next, float eps) noexcept {
  const auto count = static_cast<float>(n);
  const float mean = sum_row(x, n, [](V v) { return v; }) / count;
  float rest = 0;
  float squares = 0;
  centered_sums(x, n, next, splat(mean), &rest, &squares);
  rest /= count;
  const float variance = squares / count - rest * rest;
  return {mean + rest, 1.0F / __builtin_sqrtf((variance < 0 ? 0 : variance) + eps)};
}

enum class Norm { Layer, Rms };

// What follows the norm of row r: any operands, or the two frequent cases without a branch a vector.
struct AnyAffine {
  Operand weight, bias, scale, shift;

  AnyAffine(const NormArgs& a, std::int64_t r) noexcept
      : weight(operand_of(a.weight, 0)),
        bias(operand_of(a.bias, 0)),
        scale(operand_of(a.scale, r / a.rows_per_mod)),
        shift(operand_of(a.shift, r / a.rows_per_mod)) {}
  template <class Access>
  V apply(Access at, V v, std::int64_t i) const noexcept {
    if (weight) v = v * weight.load(at, i);
    if (bias) v = v + bias.load(at, i);
    if (scale) v = fma(v, scale.load(at, i), v);
    if (shift) v = v + shift.load(at, i);
    return v;
  }
};
template <class T>
struct Modulation {
  const T* scale;
  const T* shift;

  Modulation(const NormArgs& a, std::int64_t r) noexcept
      : scale(row_of<T>(a.scale, r / a.rows_per_mod)),
        shift(row_of<T>(a.shift, r / a.rows_per_mod)) {}
  template <class Access>
  V apply(Access at, V v, std::int64_t i) const noexcept {
    return fma(v, at.load(scale + i), v) + at.load(shift + i);
  }
};
template <class T>
struct WeightOnly {
  const T* weight;

  WeightOnly(const NormArgs& a, std::int64_t) noexcept : weight(row_of<T>(a.weight, 0)) {}
  template <class Access>
  V apply(Access at, V v, std::int64_t i) const noexcept {
    return v * at.load(weight + i);
  }
};

template <Norm N, class Affine, class X, class Y>
void norm_rows(const NormArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  for (std::int64_t r = r0; r < r1; ++r) {
    const X* x = row_of<X>(a.x, r);
    Y* y = row_of<Y>(a.y, r);
    const std::int64_t ahead = r + 1 < r1 ? 1 : 0;
    const X* next_x = x + ahead * a.x.stride;
    const Y* next_y = y + ahead * a.y.stride;
    const RowStats stats =
        N == Norm::Layer ? layer_stats(x, a.width, next_x, a.eps) : rms_stats(x, a.width, a.eps);
    const V mean = splat(stats.mean);
    const V rstd = splat(stats.rstd);
    const Affine affine(a, r);
    each_vector(a.width, [=](auto at, std::int64_t i) {
      if constexpr (N == Norm::Rms) __builtin_prefetch(next_x + i);
      __builtin_prefetch(next_y + i, 1);
      at.store(y + i, affine.apply(at, (at.load(x + i) - mean) * rstd, i));
    });
  }
}

template <Norm N>
void norm(const NormArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  const bool weighted = a.weight.data != nullptr || a.bias.data != nullptr;
  const bool modulated = a.scale.data != nullptr && a.shift.data != nullptr;
  with_types(a.x.elem, a.y.elem, [&]<class X, class Y>() {
    if (!weighted && modulated && a.scale.elem == a.shift.elem) {
      with_type(a.scale.elem, [&]<class T>() { norm_rows<N, Modulation<T>, X, Y>(a, r0, r1); });
    } else if (a.weight.data != nullptr && a.bias.data == nullptr && a.scale.data == nullptr &&
               a.shift.data == nullptr) {
      with_type(a.weight.elem, [&]<class T>() { norm_rows<N, WeightOnly<T>, X, Y>(a, r0, r1); });
    } else {
      norm_rows<N, AnyAffine, X, Y>(a, r0, r1);
    }
  });
}

void layer_norm(const NormArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  norm<Norm::Layer>(a, r0, r1);
}

void rms_norm(const NormArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  norm<Norm::Rms>(a, r0, r1);
}

// One head: v = x * rstd * weight (rstd 1 and no weight: x), then each pair turned by its angle.
struct Head {
  std::int64_t width = 0;
  Operand weight;
  V rstd = splat(1.0F);
  const float* cos = nullptr;
  const float* sin = nullptr;

  template <class Access, class X>
  V normed(Access at, const X* x, std::int64_t i) const noexcept {
    const V v = at.load(x + i);
    return weight ? v * rstd * weight.load(at, i) : v;
  }
};

// Element i of x, normed, as a number: for the pairs that fill no vector.
template <class X>
inline float normed_one(const Head& h, const X* x, std::int64_t i) noexcept {
  return sum(h.normed(Part{1}, x, i));
}

template <class Y>
inline void store_one(Y* y, float value) noexcept {
  store_n(y, splat(value), 1);
}

template <class X, class Y>
inline void turn_interleaved(const Head& h, const X* x, Y* y) noexcept {
  std::int64_t i = 0;
  if constexpr (kWidth > 1) {
    for (; i + kWidth <= h.width; i += kWidth) {
      const V v = h.normed(Full{}, x, i);
      const V crossed = swap_pairs(v) * load_twice(h.sin + i / 2);
      store(y + i, fma_sub_add(v, load_twice(h.cos + i / 2), crossed));
    }
  }
  for (; i + 2 <= h.width; i += 2) {
    const float even = normed_one(h, x, i);
    const float odd = normed_one(h, x, i + 1);
    const float c = h.cos[i / 2];
    const float s = h.sin[i / 2];
    store_one(y + i, even * c - odd * s);
    store_one(y + i + 1, odd * c + even * s);
  }
}

template <class X, class Y>
inline void turn_half(const Head& h, const X* x, Y* y) noexcept {
  const std::int64_t half = h.width / 2;
  each_vector(half, [=, &h](auto at, std::int64_t i) {
    const V low = h.normed(at, x, i);
    const V high = h.normed(at, x, i + half);
    const V c = at.load(h.cos + i);
    const V s = at.load(h.sin + i);
    at.store(y + i, low * c - high * s);
    at.store(y + i + half, fma(low, s, high * c));
  });
}

constexpr std::int64_t kLongestHead = 512;

template <class X, class Y>
void rope_rows(const RopeArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  alignas(64) float weight[kLongestHead];
  Head h{.width = a.width, .weight = operand_of(a.norm_weight, 0)};
  if (h.weight && a.width <= kLongestHead) {  // converted once for all heads
    each_vector(a.width,
                [&](auto at, std::int64_t i) { at.store(weight + i, h.weight.load(at, i)); });
    h.weight = {weight, Elem::F32};
  }
  for (std::int64_t r = r0; r < r1; ++r) {
    const std::int64_t token = r / a.heads;
    const std::int64_t head = r - token * a.heads;
    const X* x = static_cast<const X*>(a.x.data) + token * a.x_token + head * a.x.stride;
    Y* y = static_cast<Y*>(a.y.data) + token * a.y_token + head * a.y.stride;
    if (h.weight) h.rstd = splat(rms_stats(x, a.width, a.eps).rstd);
    if (a.cos == nullptr) {
      each_vector(a.width, [&](auto at, std::int64_t i) { at.store(y + i, h.normed(at, x, i)); });
      continue;
    }
    h.cos = a.cos + token % a.tokens * (a.width / 2);
    h.sin = a.sin + token % a.tokens * (a.width / 2);
    if (a.pairs == RopePairs::Interleaved) {
      turn_interleaved(h, x, y);
    } else {
      turn_half(h, x, y);
    }
  }
}

void rope(const RopeArgs& a, std::int64_t r0, std::int64_t r1) noexcept {
  with_types(a.x.elem, a.y.elem, [&]<class X, class Y>() { rope_rows<X, Y>(a, r0, r1); });
}

template <class X>
inline float max_row(const X* x, std::int64_t n) noexcept {
  V m0 = splat(-__builtin_inff());
  V m1 = m0;
  std::int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    m0 = max(m0, load(x + i));
    m1 = max(m1, load(x + i + kWidth));
  }
  float largest = max_of(max(m0, m1));
  for (; i < n; ++i) {
    const float v = value_of(x + i);
    largest = v > largest ? v : largest;
  }
  return largest;
}

// A row of -inf gives NaN, as in torch: exp(-inf - -inf). A NaN may be lost by max_row but not by
// exp().
template <class X, class Y>
void softmax_rows(ConstRows xs, Rows ys, std::int64_t n, std::int64_t r0,
                  std::int64_t r1) noexcept {
  for (std::int64_t r = r0; r < r1; ++r) {
    const X* x = row_of<X>(xs, r);
    Y* y = row_of<Y>(ys, r);
    const V largest = splat(max_row(x, n));
    const float total = sum_row(x, n, [=](V v) { return exp(v - largest); });
    const V inverse = splat(1.0F / total);
    each_vector(n, [=](auto at, std::int64_t i) {
      at.store(y + i, exp(at.load(x + i) - largest) * inverse);
    });
  }
}

void softmax(ConstRows x, Rows y, std::int64_t n, std::int64_t r0, std::int64_t r1) noexcept {
  with_types(x.elem, y.elem, [&]<class X, class Y>() { softmax_rows<X, Y>(x, y, n, r0, r1); });
}

constexpr RowwiseKernels make_table(Level level) noexcept {
  return {level,     &layer_norm,      &rms_norm,         &rope,  &softmax,
          &gate_add, &group_norm_sums, &group_norm_apply, &unary, &binary};
}

}  // namespace
}  // namespace difflet::cpu
