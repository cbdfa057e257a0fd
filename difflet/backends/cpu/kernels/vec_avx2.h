// Vector primitives of the AVX2 level (AVX2, FMA, F16C). Private to the kernel units of that level:
// everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

using Word = std::uint32_t;  // 32 bits of a packed operand: one f32 or two bf16

struct Vec {
  using F = __m256;   // f32 lanes
  using W = __m256i;  // 32-bit words
  static constexpr int kLanes = 8;

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float v) { return _mm256_set1_ps(v); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
  // max and min return b when either operand is NaN.
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static float reduce_add(F a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float reduce_max(F a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

  static W load_words(const void* p) { return _mm256_loadu_si256(static_cast<const W*>(p)); }
  static void store_words(void* p, W v) { _mm256_storeu_si256(static_cast<W*>(p), v); }
  static W zero_words() { return _mm256_setzero_si256(); }
  static W words_or(W a, W b) { return _mm256_or_si256(a, b); }
  static bool any(W a) { return _mm256_testz_si256(a, a) == 0; }
  static W as_words(F a) { return _mm256_castps_si256(a); }
  static F as_floats(W a) { return _mm256_castsi256_ps(a); }
  // The lower and the upper bf16 of each word, as f32.
  static F low_bf16(W a) { return as_floats(_mm256_slli_epi32(a, 16)); }
  static F high_bf16(W a) {
    return as_floats(_mm256_and_si256(a, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  // Integers: of each word as a whole, of its two halves (*16) or of its four bytes.
  static W set1_word(int v) { return _mm256_set1_epi32(v); }
  static W add_words(W a, W b) { return _mm256_add_epi32(a, b); }
  static W max_words(W a, W b) { return _mm256_max_epi32(a, b); }
  static F from_ints(W a) { return _mm256_cvtepi32_ps(a); }
  static W to_ints(F a) { return _mm256_cvtps_epi32(a); }  // to nearest, ties to even
  static W dot16(W a, W b) { return _mm256_madd_epi16(a, b); }
  // Byte i of each word as f32; bytes are stored for that as they are.
  static W stored_bytes(W a) { return a; }
  static F float_of_byte(W a, int i) {
    return from_ints(_mm256_srai_epi32(_mm256_slli_epi32(a, 24 - 8 * i), 24));
  }
  // Bytes 0 and 2, or 1 and 3, of each word sign-extended to its halves.
  static W low_bytes(W a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
  static W high_bytes(W a) { return _mm256_srai_epi16(a, 8); }
  static W exchange_middle_bytes(W a) {
    const W x =
        _mm256_and_si256(_mm256_xor_si256(a, _mm256_srli_epi32(a, 8)), _mm256_set1_epi32(0xff00));
    return _mm256_xor_si256(a, _mm256_xor_si256(x, _mm256_slli_epi32(x, 8)));
  }
  // Values that fit, in order: 2 * kLanes as 16 bits, 4 * kLanes as bytes.
  static W pack_shorts(W a, W b) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  }
  static W pack_bytes(W a, W b, W c, W d) {
    return _mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  // All ones where an element (f32, or bf16 in 16 bits) is NaN or Inf.
  static W nonfinite_f32(W a) {
    const W e = _mm256_set1_epi32(0x7f800000);
    return _mm256_cmpeq_epi32(_mm256_and_si256(a, e), e);
  }
  static W nonfinite_bf16(W a) {
    const W e = _mm256_set1_epi16(0x7f80);
    return _mm256_cmpeq_epi16(_mm256_and_si256(a, e), e);
  }

  static F load_bf16(const std::uint16_t* p) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return as_floats(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    const W r = rounded(v);
    const __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), h);
  }
  // 2 * kLanes values rounded to bf16, in order.
  static W pack_bf16(F first, F second) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded(first), rounded(second)), 0xd8);
  }
  // Interleaves the 16-bit elements of a and b: words (a0, b0), (a1, b1), ...
  static void interleave16(W a, W b, W* first, W* second) {
    const W lo = _mm256_unpacklo_epi16(a, b);
    const W hi = _mm256_unpackhi_epi16(a, b);
    *first = _mm256_permute2x128_si256(lo, hi, 0x20);
    *second = _mm256_permute2x128_si256(lo, hi, 0x31);
  }
  static void transpose(W (&r)[8]);

  // Range reduction of 2^x = 2^round(x) * 2^f: returns f in [-0.5, 0.5].
  static constexpr bool kFloorReduction = false;
  struct Exp2State {
    W shifted;  // round(x) in its low bits
    F keep;     // all ones where 2^x does not underflow
  };
  static F exp2_fraction(F x, Exp2State* state) {
    const F magic = set1(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
    state->keep = _mm256_cmp_ps(x, set1(-126.0F), _CMP_NLT_UQ);
    x = min(set1(127.0F), max(set1(-126.0F), x));
    const F t = add(x, magic);
    state->shifted = as_words(t);
    return sub(x, sub(t, magic));
  }
  static F exp2_scale(F p, const Exp2State& state) {
    const W scaled = _mm256_add_epi32(as_words(p), _mm256_slli_epi32(state.shifted, 23));
    return _mm256_and_ps(as_floats(scaled), state.keep);
  }

 private:
  // bf16 bits in the low half of each word: round to nearest even, NaN stays NaN.
  static W rounded(F v) {
    const W bits = as_words(v);
    const W lsb = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const W sum = _mm256_add_epi32(bits, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff)));
    const W quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const F nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const F picked = _mm256_blendv_ps(as_floats(sum), as_floats(quiet), nan);
    return _mm256_srli_epi32(as_words(picked), 16);
  }
};

// 8 x 8 words.
inline void Vec::transpose(W (&r)[8]) {
  W t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  W u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
}

}  // namespace
}  // namespace difflet::cpu
