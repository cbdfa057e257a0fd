// Functions of one vector: exponentials, activations, their dispatch. Included by a level's
// translation unit after its vector type V; nothing here has external linkage. Coefficients are
// interpolations at Chebyshev nodes of the interval named beside them; rowwise_test.cc holds
// the error bounds. max(a, b) and min(a, b) return b when either operand is NaN.
#pragma once

#include "difflet/backends/cpu/kernels/rowwise.h"

namespace difflet::cpu {
namespace {

template <class... C>
inline V polynomial(V x, float highest, C... lower) noexcept {
  V p = splat(highest);
  ((p = fma(p, x, splat(lower))), ...);
  return p;
}

// e^x = 2^n e^r with |r| <= ln(2) / 2; ln(2) in two parts, the first exact times n.
// Below -105 the result is 0, above 89 infinity.
inline V exp(V x) noexcept {
  x = min(splat(89.0F), max(splat(-105.0F), x));
  const V n = round(x * splat(1.442695041F));  // NOLINT(modernize-use-std-numbers): no std in units
  V r = fma(n, splat(-0.693359375F), x);       // NOLINT(modernize-use-std-numbers): head of ln(2)
  r = fma(n, splat(2.12194440e-4F), r);
  const V p = polynomial(r, 1.989098088e-4F, 1.393364103e-3F, 8.333310934e-3F, 4.166646501e-2F,
                         1.666666668e-1F, 5.000000013e-1F);  // (e^r - 1 - r) / r^2
  return scale2(fma(p, r * r, r) + splat(1.0F), n);
}

inline V sigmoid(V x) noexcept { return splat(1.0F) / (splat(1.0F) + exp(splat(0.0F) - x)); }

inline V tanh(V x) noexcept {
  const V t = abs(x);
  const V s = x * x;
  const V p = polynomial(s, -6.269119714e-3F, 2.111095904e-2F, -5.387394885e-2F, 1.333291537e-1F,
                         -3.333333033e-1F);  // (tanh(x) / x - 1) / x^2, |x| <= 0.6
  const V large = splat(1.0F) - splat(2.0F) / (exp(t + t) + splat(1.0F));
  return select(less(t, splat(0.6F)), fma(x * s, p, x), copysign(large, x));
}

// erf(x) / x - 1 for |x| <= 0.9, s = x^2.
inline V erf_small(V s) noexcept {
  return polynomial(s, 8.529401319e-5F, -8.179632180e-4F, 5.204226694e-3F, -2.686066479e-2F,
                    1.128371805e-1F, -3.761263519e-1F, 1.283791668e-1F);
}

// erfc(t) = exp(-t (t + q(t))) for t >= 0.9, q from [0.9, 6]: relative error 2e-7 up to 6, and
// beyond it a value under 1e-16 that still falls to zero.
inline V erfc_large(V t) noexcept {
  const V q = polynomial(min(splat(6.0F), t), -4.644462757e-9F, 1.703459074e-7F, -2.667807859e-6F,
                         2.240753929e-5F, -9.396340370e-5F, -4.117787406e-5F, 3.225879165e-3F,
                         -2.348276928e-2F, 1.062653751e-1F, -3.649913140e-1F, 1.128703513F);
  return exp(splat(0.0F) - t * (t + q));
}

inline V erf(V x) noexcept {
  const V t = abs(x);
  const V large = splat(1.0F) - erfc_large(t);
  return select(less(t, splat(0.9F)), fma(x, erf_small(x * x), x), copysign(large, x));
}

// x (1 + erf(x / sqrt 2)) / 2, without the cancellation of 1 + erf for negative x.
inline V gelu_erf(V x) noexcept {
  const V z = x * splat(0.7071067812F);
  const V t = abs(z);
  const V tail = erfc_large(t);
  const V large = select(less(z, splat(0.0F)), tail, splat(2.0F) - tail);
  const V small = splat(1.0F) + fma(z, erf_small(z * z), z);
  return splat(0.5F) * x * select(less(t, splat(0.9F)), small, large);
}

// x (1 + tanh u) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline V gelu_tanh(V x) noexcept {
  const V minus_2u = x * fma(x * x, splat(-7.135481283e-2F), splat(-1.595769122F));
  return x / (splat(1.0F) + exp(minus_2u));
}

// libm one lane at a time, for functions that no inner loop of a model needs.
template <class F>
inline V by_lane(V x, F f) noexcept {
  alignas(64) float lanes[kWidth];
  store(lanes, x);
  for (float& lane : lanes) lane = f(lane);
  return load(lanes);
}

template <UnaryFn F>
inline V apply_unary(V x) noexcept {
  const V one = splat(1.0F);
  const V zero = splat(0.0F);
  if constexpr (F == UnaryFn::Neg) return x * splat(-1.0F);
  if constexpr (F == UnaryFn::Exp) return exp(x);
  if constexpr (F == UnaryFn::Log) return by_lane(x, [](float v) { return __builtin_logf(v); });
  if constexpr (F == UnaryFn::Sin) return by_lane(x, [](float v) { return __builtin_sinf(v); });
  if constexpr (F == UnaryFn::Cos) return by_lane(x, [](float v) { return __builtin_cosf(v); });
  if constexpr (F == UnaryFn::Sqrt) return sqrt(x);
  if constexpr (F == UnaryFn::Rsqrt) return one / sqrt(x);
  if constexpr (F == UnaryFn::Tanh) return tanh(x);
  if constexpr (F == UnaryFn::Erf) return erf(x);
  if constexpr (F == UnaryFn::Abs) return abs(x);
  if constexpr (F == UnaryFn::Sigmoid) return sigmoid(x);
  if constexpr (F == UnaryFn::GeluTanh) return gelu_tanh(x);
  if constexpr (F == UnaryFn::GeluErf) return gelu_erf(x);
  if constexpr (F == UnaryFn::QuickGelu) return x / (one + exp(x * splat(-1.702F)));
  if constexpr (F == UnaryFn::Silu) return x / (one + exp(zero - x));
  if constexpr (F == UnaryFn::Relu) return max(zero, x);
  if constexpr (F == UnaryFn::Floor) return floor(x);
  return x;
}

// Max and Min give NaN when either operand is NaN, as torch.maximum does.
template <BinaryFn F>
inline V apply_binary(V a, V b) noexcept {
  if constexpr (F == BinaryFn::Add) return a + b;
  if constexpr (F == BinaryFn::Sub) return a - b;
  if constexpr (F == BinaryFn::Mul) return a * b;
  if constexpr (F == BinaryFn::Div) return a / b;
  if constexpr (F == BinaryFn::Max) return select(is_nan(a), a, max(a, b));
  if constexpr (F == BinaryFn::Min) return select(is_nan(a), a, min(a, b));
  if constexpr (F == BinaryFn::Pow) {
    alignas(64) float base[kWidth];
    alignas(64) float power[kWidth];
    store(base, a);
    store(power, b);
    for (int i = 0; i < kWidth; ++i) base[i] = __builtin_powf(base[i], power[i]);
    return load(base);
  }
}

// How a loop touches memory: whole vectors, then one partial vector.
struct Full {
  template <class T>
  V load(const T* p) const noexcept {
    return cpu::load(p);
  }
  template <class T>
  void store(T* p, V a) const noexcept {
    cpu::store(p, a);
  }
  void store_exact(std::uint16_t* p, V a) const noexcept { cpu::store_exact(p, a); }
};
struct Part {
  int n;
  template <class T>
  V load(const T* p) const noexcept {
    return load_n(p, n);
  }
  template <class T>
  void store(T* p, V a) const noexcept {
    store_n(p, a, n);
  }
  void store_exact(std::uint16_t* p, V a) const noexcept { store_exact_n(p, a, n); }
};

// Calls body(access, i) for vectors at elements i of [0, n).
template <class Body>
[[gnu::always_inline]] inline void each_vector(std::int64_t n, Body body) noexcept {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) body(Full{}, i);
  if constexpr (kWidth > 1) {
    if (i < n) body(Part{static_cast<int>(n - i)}, i);
  }
}

// Calls f.operator()<T>() with T = float or std::uint16_t (bf16).
template <class F>
[[gnu::always_inline]] inline void with_type(Elem e, F f) noexcept {
  if (e == Elem::F32) {
    f.template operator()<float>();
  } else {
    f.template operator()<std::uint16_t>();
  }
}
template <class F>
[[gnu::always_inline]] inline void with_types(Elem x, Elem y, F f) noexcept {
  with_type(x, [&]<class X>() { with_type(y, [&]<class Y>() { f.template operator()<X, Y>(); }); });
}

inline float value_of(const float* p) noexcept { return *p; }
inline float value_of(const std::uint16_t* p) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(*p) << 16);
}

template <class T>
inline const T* row_of(const ConstRows& rows, std::int64_t r) noexcept {
  return static_cast<const T*>(rows.data) + r * rows.stride;
}
template <class T>
inline T* row_of(const Rows& rows, std::int64_t r) noexcept {
  return static_cast<T*>(rows.data) + r * rows.stride;
}

// A row whose element type is known at run time only: the branch is the same for a whole row.
struct Operand {
  const void* data = nullptr;
  Elem elem = Elem::F32;

  explicit operator bool() const noexcept { return data != nullptr; }
  template <class Access>
  V load(Access access, std::int64_t i) const noexcept {
    if (elem == Elem::F32) return access.load(static_cast<const float*>(data) + i);
    return access.load(static_cast<const std::uint16_t*>(data) + i);
  }
};
inline Operand operand_of(const ConstRows& rows, std::int64_t r) noexcept {
  if (rows.data == nullptr) return {};
  const std::int64_t bytes = rows.elem == Elem::F32 ? 4 : 2;
  return {static_cast<const char*>(rows.data) + r * rows.stride * bytes, rows.elem};
}

}  // namespace
}  // namespace difflet::cpu
