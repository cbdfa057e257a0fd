// Vectors of sixteen f32 for the two AVX-512 levels. Included by a level's translation unit only.
#pragma once

// The intrinsics of g++ 12 start from a deliberately uninitialized register (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstdint>

namespace difflet::cpu {
namespace {

constexpr int kWidth = 16;
struct V {
  __m512 v;
};
using Mask = __mmask16;

inline V splat(float a) noexcept { return {_mm512_set1_ps(a)}; }

// bf16 is the upper half of an f32.
inline V from_bf16(__m256i bits) noexcept {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}

// Round to nearest even; a NaN keeps its sign and upper payload and becomes quiet.
inline __m256i to_bf16_exact(V a) noexcept {
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i bits = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

// vcvtneps2bf16 differs from to_bf16_exact in one thing: below 2^-126 it gives zero.
inline __m256i to_bf16(V a) noexcept {
#if defined(__AVX512BF16__)
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v));
#else
  return to_bf16_exact(a);
#endif
}

inline V load(const float* p) noexcept { return {_mm512_loadu_ps(p)}; }
inline V load(const std::uint16_t* p) noexcept {
  return from_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// 2 * kWidth elements in any order, for sums: bf16 needs one instruction a vector.
inline void load_two(const float* p, V* a, V* b) noexcept {
  *a = load(p);
  *b = load(p + kWidth);
}
inline void load_two(const std::uint16_t* p, V* a, V* b) noexcept {
  const __m512i pairs = _mm512_loadu_si512(p);
  a->v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  b->v = _mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
inline void store(float* p, V a) noexcept { _mm512_storeu_ps(p, a.v); }
inline void store(std::uint16_t* p, V a) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(a));
}
inline void store_exact(std::uint16_t* p, V a) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16_exact(a));
}

inline __mmask16 first_lanes(int n) noexcept { return static_cast<__mmask16>((1U << n) - 1U); }

// Partial vectors: n < kWidth elements, the other lanes are zero.
inline V load_n(const float* p, int n) noexcept {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
inline V load_n(const std::uint16_t* p, int n) noexcept {
  return from_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
inline void store_n(float* p, V a, int n) noexcept {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
inline void store_n(std::uint16_t* p, V a, int n) noexcept {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_bf16(a));
}
inline void store_exact_n(std::uint16_t* p, V a, int n) noexcept {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_bf16_exact(a));
}
inline V keep_n(V a, int n) noexcept { return {_mm512_maskz_mov_ps(first_lanes(n), a.v)}; }

inline V operator+(V a, V b) noexcept { return {_mm512_add_ps(a.v, b.v)}; }
inline V operator-(V a, V b) noexcept { return {_mm512_sub_ps(a.v, b.v)}; }
inline V operator*(V a, V b) noexcept { return {_mm512_mul_ps(a.v, b.v)}; }
inline V operator/(V a, V b) noexcept { return {_mm512_div_ps(a.v, b.v)}; }
inline V fma(V a, V b, V c) noexcept { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline V max(V a, V b) noexcept { return {_mm512_max_ps(a.v, b.v)}; }
inline V min(V a, V b) noexcept { return {_mm512_min_ps(a.v, b.v)}; }
inline V abs(V a) noexcept { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0F), a.v)}; }
inline V copysign(V a, V sign) noexcept {
  return {_mm512_or_ps(abs(a).v, _mm512_and_ps(_mm512_set1_ps(-0.0F), sign.v))};
}
inline V sqrt(V a) noexcept { return {_mm512_sqrt_ps(a.v)}; }
inline V round(V a) noexcept {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline V floor(V a) noexcept {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
inline Mask less(V a, V b) noexcept { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
inline Mask is_nan(V a) noexcept { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q); }
inline V select(Mask m, V a, V b) noexcept { return {_mm512_mask_blend_ps(m, b.v, a.v)}; }
inline V scale2(V a, V n) noexcept { return {_mm512_scalef_ps(a.v, n.v)}; }
inline float sum(V a) noexcept { return _mm512_reduce_add_ps(a.v); }
inline float max_of(V a) noexcept { return _mm512_reduce_max_ps(a.v); }

// p[0], p[0], p[1], p[1], ...: kWidth / 2 elements, each twice.
inline V load_twice(const float* p) noexcept {
  const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
}
inline V swap_pairs(V a) noexcept { return {_mm512_permute_ps(a.v, 0xB1)}; }
// a * b - c in even lanes, a * b + c in odd lanes.
inline V fma_sub_add(V a, V b, V c) noexcept { return {_mm512_fmaddsub_ps(a.v, b.v, c.v)}; }

}  // namespace
}  // namespace difflet::cpu
