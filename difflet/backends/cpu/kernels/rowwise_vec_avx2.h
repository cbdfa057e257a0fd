// Vectors of eight f32 for the AVX2 level. Included by a level's translation unit only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace difflet::cpu {
namespace {

constexpr int kWidth = 8;
struct V {
  __m256 v;
};
using Mask = __m256;

inline V splat(float a) noexcept { return {_mm256_set1_ps(a)}; }

// bf16 is the upper half of an f32.
inline V from_bf16(__m128i bits) noexcept {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}

// Round to nearest even; a NaN keeps its sign and upper payload and becomes quiet.
inline __m128i to_bf16(V a) noexcept {
  const __m256i u = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  const __m256i bits = _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan));
  const __m256i high = _mm256_srli_epi32(bits, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

inline V load(const float* p) noexcept { return {_mm256_loadu_ps(p)}; }
inline V load(const std::uint16_t* p) noexcept {
  return from_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// 2 * kWidth elements in any order, for sums: bf16 needs one instruction a vector.
inline void load_two(const float* p, V* a, V* b) noexcept {
  *a = load(p);
  *b = load(p + kWidth);
}
inline void load_two(const std::uint16_t* p, V* a, V* b) noexcept {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  a->v = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  b->v = _mm256_castsi256_ps(
      _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
inline void store(float* p, V a) noexcept { _mm256_storeu_ps(p, a.v); }
inline void store(std::uint16_t* p, V a) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(a));
}
inline void store_exact(std::uint16_t* p, V a) noexcept { store(p, a); }

// All ones in lanes below n.
inline __m256i first_lanes(int n) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Partial vectors: n < kWidth elements, the other lanes are zero.
inline V load_n(const float* p, int n) noexcept { return {_mm256_maskload_ps(p, first_lanes(n))}; }
inline V load_n(const std::uint16_t* p, int n) noexcept {
  alignas(16) std::uint16_t lanes[kWidth] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
inline void store_n(float* p, V a, int n) noexcept { _mm256_maskstore_ps(p, first_lanes(n), a.v); }
inline void store_n(std::uint16_t* p, V a, int n) noexcept {
  alignas(16) std::uint16_t lanes[kWidth];
  store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
inline void store_exact_n(std::uint16_t* p, V a, int n) noexcept { store_n(p, a, n); }
inline V keep_n(V a, int n) noexcept {
  return {_mm256_and_ps(a.v, _mm256_castsi256_ps(first_lanes(n)))};
}

inline V operator+(V a, V b) noexcept { return {_mm256_add_ps(a.v, b.v)}; }
inline V operator-(V a, V b) noexcept { return {_mm256_sub_ps(a.v, b.v)}; }
inline V operator*(V a, V b) noexcept { return {_mm256_mul_ps(a.v, b.v)}; }
inline V operator/(V a, V b) noexcept { return {_mm256_div_ps(a.v, b.v)}; }
inline V fma(V a, V b, V c) noexcept { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline V max(V a, V b) noexcept { return {_mm256_max_ps(a.v, b.v)}; }
inline V min(V a, V b) noexcept { return {_mm256_min_ps(a.v, b.v)}; }
inline V abs(V a) noexcept { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.v)}; }
inline V copysign(V a, V sign) noexcept {
  return {_mm256_or_ps(abs(a).v, _mm256_and_ps(_mm256_set1_ps(-0.0F), sign.v))};
}
inline V sqrt(V a) noexcept { return {_mm256_sqrt_ps(a.v)}; }
inline V round(V a) noexcept {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline V floor(V a) noexcept { return {_mm256_floor_ps(a.v)}; }
inline Mask less(V a, V b) noexcept { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
inline Mask is_nan(V a) noexcept { return _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q); }
inline V select(Mask m, V a, V b) noexcept { return {_mm256_blendv_ps(b.v, a.v, m)}; }

// a * 2^n in two steps, so that a result below 2^-126 is rounded once.
inline V scale2(V a, V n) noexcept {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i k = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(k, 1);
  const __m256i p0 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i p1 = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), bias), 23);
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, _mm256_castsi256_ps(p0)), _mm256_castsi256_ps(p1))};
}

inline float sum(V a) noexcept {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float max_of(V a) noexcept {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// p[0], p[0], p[1], p[1], ...: kWidth / 2 elements, each twice.
inline V load_twice(const float* p) noexcept {
  const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(p));
  return {_mm256_permutevar8x32_ps(low, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3))};
}
inline V swap_pairs(V a) noexcept { return {_mm256_permute_ps(a.v, 0xB1)}; }
// a * b - c in even lanes, a * b + c in odd lanes.
inline V fma_sub_add(V a, V b, V c) noexcept { return {_mm256_fmaddsub_ps(a.v, b.v, c.v)}; }

}  // namespace
}  // namespace difflet::cpu
