// Functions of vectors, written once over the Vec of the including unit: exp2, the activations, and
// loads and stores of any element type. Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// 2^f by a minimax polynomial (relative error 7.5e-5 for degree 3, 7.5e-8 for degree 5) on [0, 1)
// or [-0.5, 0.5], whichever range reduction the level has.
template <int kDegree>
inline Vec::F exp2(Vec::F x) {
  static_assert(kDegree == 3 || kDegree == 5);
  constexpr bool kFloor = Vec::kFloorReduction;
  typename Vec::Exp2State state{};
  const Vec::F f = Vec::exp2_fraction(x, &state);
  Vec::F p;
  if constexpr (kDegree == 3) {
    p = Vec::set1(kFloor ? 0.0780245227F : 0.0551716691F);
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.226067155F : 0.242611122F));
    // NOLINTNEXTLINE(modernize-use-std-numbers): minimax coefficient, not ln(2)
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.69583354F : 0.693260985F));
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.999925219F : 0.999928074F));
  } else {
    p = Vec::set1(kFloor ? 0.0018775767F : 0.00132764722F);
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.00898934002F : 0.00967554133F));
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.0558263181F : 0.0555071327F));
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.240153617F : 0.240221197F));
    // NOLINTNEXTLINE(modernize-use-std-numbers): minimax coefficient, not ln(2)
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.693153073F : 0.693146967F));
    p = Vec::fma(p, f, Vec::set1(kFloor ? 0.999999925F : 1.00000007F));
  }
  return Vec::exp2_scale(p, state);
}

constexpr float kLog2E = 1.44269504F;  // NOLINT(modernize-use-std-numbers): no std in kernel units

// v / (1 + 2^e)
inline Vec::F over_one_plus_exp2(Vec::F v, Vec::F e) {
  return Vec::div(v, Vec::add(Vec::set1(1.0F), exp2<5>(e)));
}

// 0.5 v (1 + tanh(u)) = v / (1 + exp(-2u)), u = sqrt(2/pi) (v + 0.044715 v^3)
inline Vec::F gelu_tanh(Vec::F v) {
  constexpr float kScale = -2.0F * 0.797884561F * kLog2E;
  const Vec::F cubic = Vec::fma(Vec::mul(Vec::set1(0.044715F), v), v, Vec::set1(1.0F));
  return over_one_plus_exp2(v, Vec::mul(Vec::mul(Vec::set1(kScale), v), cubic));
}

// 0.5 v (1 + erf(v / sqrt 2)) = max(v, 0) - 0.5 |v| erfc(|v| / sqrt 2), with erfc by Abramowitz and
// Stegun 7.1.26: error below 1.5e-7 |v|, and relative to the result for v < 0.
inline Vec::F gelu_erf(Vec::F v) {
  const Vec::F magnitude = Vec::abs(v);
  const Vec::F one = Vec::set1(1.0F);
  const Vec::F t = Vec::div(one, Vec::fma(magnitude, Vec::set1(0.3275911F * 0.707106781F), one));
  Vec::F p = Vec::set1(1.061405429F);
  p = Vec::fma(p, t, Vec::set1(-1.453152027F));
  p = Vec::fma(p, t, Vec::set1(1.421413741F));
  p = Vec::fma(p, t, Vec::set1(-0.284496736F));
  p = Vec::fma(p, t, Vec::set1(0.254829592F));
  const Vec::F gauss = exp2<5>(Vec::mul(Vec::mul(v, v), Vec::set1(-0.5F * kLog2E)));
  const Vec::F erfc = Vec::mul(Vec::mul(p, t), gauss);
  const Vec::F tail = Vec::mul(Vec::mul(magnitude, Vec::set1(0.5F)), erfc);
  return Vec::sub(Vec::max(Vec::zero(), v), tail);
}

template <Act kAct>
inline Vec::F activate(Vec::F v) {
  if constexpr (kAct == Act::GeluTanh) {
    return gelu_tanh(v);
  } else if constexpr (kAct == Act::GeluErf) {
    return gelu_erf(v);
  } else if constexpr (kAct == Act::QuickGelu) {
    return over_one_plus_exp2(v, Vec::mul(v, Vec::set1(-1.702F * kLog2E)));
  } else if constexpr (kAct == Act::Silu) {
    return over_one_plus_exp2(v, Vec::mul(v, Vec::set1(-kLog2E)));
  } else if constexpr (kAct == Act::Relu) {
    return Vec::max(Vec::zero(), v);
  } else {
    return v;
  }
}

constexpr std::int64_t bytes_of(Elem e) { return e == Elem::F32 ? 4 : e == Elem::Bf16 ? 2 : 1; }

inline const char* element(const void* base, Elem e, std::int64_t index) {
  return static_cast<const char*>(base) + index * bytes_of(e);
}
inline char* element(void* base, Elem e, std::int64_t index) {
  return static_cast<char*>(base) + index * bytes_of(e);
}

inline Vec::F load_as(const void* p, Elem e) {
  return e == Elem::F32 ? Vec::load(static_cast<const float*>(p))
                        : Vec::load_bf16(static_cast<const std::uint16_t*>(p));
}
inline void store_as(void* p, Elem e, Vec::F v) {
  if (e == Elem::F32) {
    Vec::store(static_cast<float*>(p), v);
  } else {
    Vec::store_bf16(static_cast<std::uint16_t*>(p), v);
  }
}

inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(bytes));
}

// The same for the first `count` < kLanes elements; the rest is zero and not touched in memory.
inline Vec::F load_part(const void* p, Elem e, std::int64_t count) {
  alignas(64) char lanes[Vec::kLanes * 4] = {};
  copy_bytes(lanes, p, count * bytes_of(e));
  return load_as(lanes, e);
}
inline void store_part(void* p, Elem e, std::int64_t count, Vec::F v) {
  alignas(64) char lanes[Vec::kLanes * 4];
  store_as(lanes, e, v);
  copy_bytes(p, lanes, count * bytes_of(e));
}

inline std::int64_t round_up(std::int64_t v, std::int64_t step) {
  return (v + step - 1) / step * step;
}
inline std::int64_t ceil_div(std::int64_t v, std::int64_t step) { return (v + step - 1) / step; }
inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

}  // namespace
}  // namespace difflet::cpu
