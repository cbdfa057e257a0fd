// Vector primitives of the AVX-512 levels (F, BW, DQ, VL; with BF16 conversion where the unit is
// compiled for it). Private to the kernel units of those levels: everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

using Word = std::uint32_t;  // 32 bits of a packed operand: one f32 or two bf16

struct Vec {
  using F = __m512;   // f32 lanes
  using W = __m512i;  // 32-bit words
  static constexpr int kLanes = 16;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  // max and min return b when either operand is NaN.
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static float reduce_add(F a) { return _mm512_reduce_add_ps(a); }
  static float reduce_max(F a) { return _mm512_reduce_max_ps(a); }

  static W load_words(const void* p) { return _mm512_loadu_si512(p); }
  static void store_words(void* p, W v) { _mm512_storeu_si512(p, v); }
  static W zero_words() { return _mm512_setzero_si512(); }
  static W words_or(W a, W b) { return _mm512_or_si512(a, b); }
  static bool any(W a) { return _mm512_test_epi32_mask(a, a) != 0; }
  static W as_words(F a) { return _mm512_castps_si512(a); }
  static F as_floats(W a) { return _mm512_castsi512_ps(a); }
  // The lower and the upper bf16 of each word, as f32.
  static F low_bf16(W a) { return as_floats(_mm512_slli_epi32(a, 16)); }
  static F high_bf16(W a) {
    return as_floats(_mm512_and_si512(a, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  // Integers: of each word as a whole, of its two halves (*16) or of its four bytes.
  static W set1_word(int v) { return _mm512_set1_epi32(v); }
  static W add_words(W a, W b) { return _mm512_add_epi32(a, b); }
  static W max_words(W a, W b) { return _mm512_max_epi32(a, b); }
  static F from_ints(W a) { return _mm512_cvtepi32_ps(a); }
  static W to_ints(F a) { return _mm512_cvtps_epi32(a); }  // to nearest, ties to even
  static W dot16(W a, W b) { return _mm512_madd_epi16(a, b); }
  // Byte i of each word as f32; bytes are stored for that with 128 added.
  static W stored_bytes(W a) {
    return _mm512_xor_si512(a, set1_word(static_cast<int>(0x80808080)));
  }
  static F float_of_byte(W a, int i) {
    const W magic = _mm512_set1_epi32(0x4b000000);  // 2^23, whose last place is one
    constexpr int kAndOr = 0xea;
    const W b = i == 0 ? a : _mm512_srli_epi32(a, static_cast<unsigned>(8 * i));
    const W bits = _mm512_ternarylogic_epi32(b, _mm512_set1_epi32(0xff), magic, kAndOr);
    return _mm512_sub_ps(as_floats(bits), _mm512_set1_ps(8388608.0F + 128));
  }
  // Bytes 0 and 2, or 1 and 3, of each word sign-extended to its halves.
  static W low_bytes(W a) { return _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8); }
  static W high_bytes(W a) { return _mm512_srai_epi16(a, 8); }
  static W exchange_middle_bytes(W a) {
    const W x =
        _mm512_and_si512(_mm512_xor_si512(a, _mm512_srli_epi32(a, 8)), _mm512_set1_epi32(0xff00));
    return _mm512_xor_si512(a, _mm512_xor_si512(x, _mm512_slli_epi32(x, 8)));
  }
  // Values that fit, in order: 2 * kLanes as 16 bits, 4 * kLanes as bytes.
  static W pack_shorts(W a, W b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                    _mm512_packs_epi32(a, b));
  }
  static W pack_bytes(W a, W b, W c, W d) {
    const W order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(
        order, _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
  }
  // All ones where an element (f32, or bf16 in 16 bits) is NaN or Inf.
  static W nonfinite_f32(W a) {
    const W e = _mm512_set1_epi32(0x7f800000);
    return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(_mm512_and_si512(a, e), e));
  }
  static W nonfinite_bf16(W a) {
    const W e = _mm512_set1_epi16(0x7f80);
    return _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(_mm512_and_si512(a, e), e));
  }

  static F load_bf16(const std::uint16_t* p) {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return as_floats(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(v));
  }
  // 2 * kLanes values rounded to bf16, in order.
  static W pack_bf16(F first, F second) {
#ifdef __AVX512BF16__
    return __builtin_bit_cast(W, _mm512_cvtne2ps_pbh(second, first));
#else
    return _mm512_inserti64x4(_mm512_castsi256_si512(to_bf16(first)), to_bf16(second), 1);
#endif
  }
  // Interleaves the 16-bit elements of a and b: words (a0, b0), (a1, b1), ...
  static void interleave16(W a, W b, W* first, W* second) {
    const W lo = _mm512_unpacklo_epi16(a, b);  // elements 0-3 of each 128-bit lane
    const W hi = _mm512_unpackhi_epi16(a, b);
    const W even = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const W odd = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    *first = _mm512_permutex2var_epi64(lo, even, hi);
    *second = _mm512_permutex2var_epi64(lo, odd, hi);
  }
  static void transpose(W (&r)[16]);

  // Range reduction of 2^x = 2^floor(x) * 2^f: returns f in [0, 1).
  static constexpr bool kFloorReduction = true;
  using Exp2State = F;
  static F exp2_fraction(F x, Exp2State* state) {
    *state = x;
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  static F exp2_scale(F p, F state) { return _mm512_scalef_ps(p, state); }

 private:
  static __m256i to_bf16(F v) {
#ifdef __AVX512BF16__
    return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(v));
#else
    const W bits = as_words(v);
    const W lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const W half = _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const W sum =
        _mm512_mask_or_epi32(_mm512_add_epi32(bits, half), nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
#endif
  }
};

// 16 x 16 words.
inline void Vec::transpose(W (&r)[16]) {
  W t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

}  // namespace
}  // namespace difflet::cpu
