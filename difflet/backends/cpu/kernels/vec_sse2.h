// Vector primitives of the scalar level: SSE2, which every x86-64 has. Private to the kernel units
// of that level: everything has internal linkage.
#pragma once

#include <emmintrin.h>

#include <cstdint>

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

using Word = std::uint32_t;  // 32 bits of a packed operand: one f32 or two bf16

struct Vec {
  using F = __m128;   // f32 lanes
  using W = __m128i;  // 32-bit words
  static constexpr int kLanes = 4;

  static F zero() { return _mm_setzero_ps(); }
  static F set1(float v) { return _mm_set1_ps(v); }
  static F load(const float* p) { return _mm_loadu_ps(p); }
  static void store(float* p, F v) { _mm_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm_add_ps(a, b); }
  static F sub(F a, F b) { return _mm_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm_mul_ps(a, b); }
  static F div(F a, F b) { return _mm_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }  // a * b + c
  // max and min return b when either operand is NaN.
  static F max(F a, F b) { return _mm_max_ps(a, b); }
  static F min(F a, F b) { return _mm_min_ps(a, b); }
  static F abs(F a) { return _mm_andnot_ps(_mm_set1_ps(-0.0F), a); }
  static float reduce_add(F a) {
    const F s = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
  }
  static float reduce_max(F a) {
    const F s = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
  }

  static W load_words(const void* p) { return _mm_loadu_si128(static_cast<const W*>(p)); }
  static void store_words(void* p, W v) { _mm_storeu_si128(static_cast<W*>(p), v); }
  static W zero_words() { return _mm_setzero_si128(); }
  static W words_or(W a, W b) { return _mm_or_si128(a, b); }
  static bool any(W a) {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_setzero_si128())) != 0xffff;
  }
  static W as_words(F a) { return _mm_castps_si128(a); }
  static F as_floats(W a) { return _mm_castsi128_ps(a); }
  // The lower and the upper bf16 of each word, as f32.
  static F low_bf16(W a) { return as_floats(_mm_slli_epi32(a, 16)); }
  static F high_bf16(W a) {
    return as_floats(_mm_and_si128(a, _mm_set1_epi32(static_cast<int>(0xffff0000))));
  }
  // Integers: of each word as a whole, of its two halves (*16) or of its four bytes.
  static W set1_word(int v) { return _mm_set1_epi32(v); }
  static W add_words(W a, W b) { return _mm_add_epi32(a, b); }
  static W max_words(W a, W b) {
    const W greater = _mm_cmpgt_epi32(a, b);
    return _mm_or_si128(_mm_and_si128(greater, a), _mm_andnot_si128(greater, b));
  }
  static F from_ints(W a) { return _mm_cvtepi32_ps(a); }
  static W to_ints(F a) { return _mm_cvtps_epi32(a); }  // to nearest, ties to even
  static W dot16(W a, W b) { return _mm_madd_epi16(a, b); }
  // Byte i of each word as f32; bytes are stored for that as they are.
  static W stored_bytes(W a) { return a; }
  static F float_of_byte(W a, int i) {
    return from_ints(_mm_srai_epi32(_mm_slli_epi32(a, 24 - 8 * i), 24));
  }
  // Bytes 0 and 2, or 1 and 3, of each word sign-extended to its halves.
  static W low_bytes(W a) { return _mm_srai_epi16(_mm_slli_epi16(a, 8), 8); }
  static W high_bytes(W a) { return _mm_srai_epi16(a, 8); }
  static W exchange_middle_bytes(W a) {
    const W x = _mm_and_si128(_mm_xor_si128(a, _mm_srli_epi32(a, 8)), _mm_set1_epi32(0xff00));
    return _mm_xor_si128(a, _mm_xor_si128(x, _mm_slli_epi32(x, 8)));
  }
  // Values that fit, in order: 2 * kLanes as 16 bits, 4 * kLanes as bytes.
  static W pack_shorts(W a, W b) { return _mm_packs_epi32(a, b); }
  static W pack_bytes(W a, W b, W c, W d) {
    return _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
  }
  // All ones where an element (f32, or bf16 in 16 bits) is NaN or Inf.
  static W nonfinite_f32(W a) {
    const W e = _mm_set1_epi32(0x7f800000);
    return _mm_cmpeq_epi32(_mm_and_si128(a, e), e);
  }
  static W nonfinite_bf16(W a) {
    const W e = _mm_set1_epi16(0x7f80);
    return _mm_cmpeq_epi16(_mm_and_si128(a, e), e);
  }

  static F load_bf16(const std::uint16_t* p) {
    const W h = _mm_loadl_epi64(reinterpret_cast<const W*>(p));
    return as_floats(_mm_unpacklo_epi16(_mm_setzero_si128(), h));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    const W r = rounded(v);
    _mm_storel_epi64(reinterpret_cast<W*>(p), _mm_packs_epi32(r, r));
  }
  // 2 * kLanes values rounded to bf16, in order.
  static W pack_bf16(F first, F second) { return _mm_packs_epi32(rounded(first), rounded(second)); }
  // Interleaves the 16-bit elements of a and b: words (a0, b0), (a1, b1), ...
  static void interleave16(W a, W b, W* first, W* second) {
    *first = _mm_unpacklo_epi16(a, b);
    *second = _mm_unpackhi_epi16(a, b);
  }
  // 4 x 4 words.
  static void transpose(W (&r)[4]) {
    const W a = _mm_unpacklo_epi32(r[0], r[1]);
    const W b = _mm_unpackhi_epi32(r[0], r[1]);
    const W c = _mm_unpacklo_epi32(r[2], r[3]);
    const W d = _mm_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm_unpacklo_epi64(a, c);
    r[1] = _mm_unpackhi_epi64(a, c);
    r[2] = _mm_unpacklo_epi64(b, d);
    r[3] = _mm_unpackhi_epi64(b, d);
  }

  // Range reduction of 2^x = 2^round(x) * 2^f: returns f in [-0.5, 0.5].
  static constexpr bool kFloorReduction = false;
  struct Exp2State {
    W shifted;  // round(x) in its low bits
    F keep;     // all ones where 2^x does not underflow
  };
  static F exp2_fraction(F x, Exp2State* state) {
    const F magic = set1(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
    state->keep = _mm_cmpnlt_ps(x, set1(-126.0F));
    x = min(set1(127.0F), max(set1(-126.0F), x));
    const F t = add(x, magic);
    state->shifted = as_words(t);
    return sub(x, sub(t, magic));
  }
  static F exp2_scale(F p, const Exp2State& state) {
    const W scaled = _mm_add_epi32(as_words(p), _mm_slli_epi32(state.shifted, 23));
    return _mm_and_ps(as_floats(scaled), state.keep);
  }

 private:
  // bf16 bits, sign-extended to each word: round to nearest even, NaN stays NaN.
  static W rounded(F v) {
    const W bits = as_words(v);
    const W lsb = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
    const W sum = _mm_add_epi32(bits, _mm_add_epi32(lsb, _mm_set1_epi32(0x7fff)));
    const W quiet = _mm_or_si128(bits, _mm_set1_epi32(0x400000));
    const W nan = as_words(_mm_cmpunord_ps(v, v));
    const W picked = _mm_or_si128(_mm_and_si128(nan, quiet), _mm_andnot_si128(nan, sum));
    return _mm_srai_epi32(picked, 16);
  }
};

}  // namespace
}  // namespace difflet::cpu
