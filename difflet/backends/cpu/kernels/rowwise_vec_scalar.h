// Vectors of one element, for machines without AVX2 and for checking the other levels. Included
// by a level's translation unit only.
#pragma once

#include <cstdint>

namespace difflet::cpu {
namespace {

constexpr int kWidth = 1;
struct V {
  float v;
};
using Mask = bool;

inline V splat(float a) noexcept { return {a}; }
inline V load(const float* p) noexcept { return {*p}; }
inline V load(const std::uint16_t* p) noexcept {
  return {__builtin_bit_cast(float, static_cast<std::uint32_t>(*p) << 16)};
}
template <class T>
inline void load_two(const T* p, V* a, V* b) noexcept {
  *a = load(p);
  *b = load(p + 1);
}
inline void store(float* p, V a) noexcept { *p = a.v; }
inline void store(std::uint16_t* p, V a) noexcept {
  const auto u = __builtin_bit_cast(std::uint32_t, a.v);
  const std::uint32_t rounded = u + 0x7FFFU + ((u >> 16) & 1U);
  *p = static_cast<std::uint16_t>((a.v != a.v ? (u | 0x400000U) : rounded) >> 16);
}
inline void store_exact(std::uint16_t* p, V a) noexcept { store(p, a); }

inline V operator+(V a, V b) noexcept { return {a.v + b.v}; }
inline V operator-(V a, V b) noexcept { return {a.v - b.v}; }
inline V operator*(V a, V b) noexcept { return {a.v * b.v}; }
inline V operator/(V a, V b) noexcept { return {a.v / b.v}; }
inline V fma(V a, V b, V c) noexcept { return {a.v * b.v + c.v}; }
inline V max(V a, V b) noexcept { return {a.v > b.v ? a.v : b.v}; }
inline V min(V a, V b) noexcept { return {a.v < b.v ? a.v : b.v}; }
inline V abs(V a) noexcept { return {__builtin_fabsf(a.v)}; }
inline V copysign(V a, V sign) noexcept { return {__builtin_copysignf(a.v, sign.v)}; }
inline V sqrt(V a) noexcept { return {__builtin_sqrtf(a.v)}; }
inline V floor(V a) noexcept { return {__builtin_floorf(a.v)}; }
inline Mask less(V a, V b) noexcept { return a.v < b.v; }
inline Mask is_nan(V a) noexcept { return a.v != a.v; }
inline V select(Mask m, V a, V b) noexcept { return m ? a : b; }
inline float sum(V a) noexcept { return a.v; }
inline float max_of(V a) noexcept { return a.v; }

// Nearest integer for |a| < 2^22, by the rounding of an addition.
inline V round(V a) noexcept {
  const float magic = 12582912.0F;  // 1.5 * 2^23
  return {(a.v + magic) - magic};
}

// a * 2^n in two steps, so that a result below 2^-126 is rounded once.
inline V scale2(V a, V n) noexcept {
  const int k = static_cast<int>(n.v);
  const int half = k >> 1;
  const auto p0 = __builtin_bit_cast(float, (half + 127) << 23);
  const auto p1 = __builtin_bit_cast(float, (k - half + 127) << 23);
  return {a.v * p0 * p1};
}

// Partial vectors: at this width only n = 1 occurs.
inline V load_n(const float* p, int) noexcept { return load(p); }
inline V load_n(const std::uint16_t* p, int) noexcept { return load(p); }
inline void store_n(float* p, V a, int) noexcept { store(p, a); }
inline void store_n(std::uint16_t* p, V a, int) noexcept { store(p, a); }
inline void store_exact_n(std::uint16_t* p, V a, int) noexcept { store(p, a); }
inline V keep_n(V a, int) noexcept { return a; }

// A vector of one holds no pair: named by the shared code, never reached.
inline V load_twice(const float* p) noexcept { return load(p); }
inline V swap_pairs(V a) noexcept { return a; }
inline V fma_sub_add(V a, V b, V c) noexcept { return a * b - c; }

}  // namespace
}  // namespace difflet::cpu
