// The register tile that every product of the kernels is made of:
//   C[kRows, kVecs * lanes] (+)= A[kRows, steps] . B[steps, kVecs * lanes]
// One step consumes one 32-bit word of each column of B, one f32 or a pair of bf16 along K, and of each
// row of A as much. Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/vec_math.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

inline float float_of(const Word* p) {
  float v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline const float* floats(const Word* p) { return reinterpret_cast<const float*>(p); }
inline float* floats(Word* p) { return reinterpret_cast<float*>(p); }

// f32 multiply-add.
struct DotF32 {
  static constexpr bool kPairs = false;
  static constexpr int kRowWords = 1;  // of A in one step
  using Operand = Vec::F;
  static Operand load(const Word* p) { return Vec::load(floats(p)); }
  static Operand broadcast(const Word* p) { return Vec::set1(float_of(p)); }
  static Vec::F add(Vec::F c, Operand a, Operand b) { return Vec::fma(a, b, c); }
};

// f32 multiply-adds with a pair of bf16 of each column, widened on the way: two words of A a step. For so
// few rows that widening B beforehand would take longer than the products.
struct DotWiden {
  static constexpr bool kPairs = false;
  static constexpr int kRowWords = 2;
  using Operand = Vec::W;
  struct RowOperand {
    Vec::F even, odd;
  };
  static Operand load(const Word* p) { return Vec::load_words(p); }
  static RowOperand broadcast(const Word* p) {
    return {Vec::set1(float_of(p)), Vec::set1(float_of(p + 1))};
  }
  static Vec::F add(Vec::F c, const RowOperand& a, Operand b) {
    return Vec::fma(a.odd, Vec::high_bf16(b), Vec::fma(a.even, Vec::low_bf16(b), c));
  }
};

#ifdef __AVX512BF16__
// Two bf16 products a step, accumulated in f32.
struct DotBf16 {
  static constexpr bool kPairs = true;
  static constexpr int kRowWords = 1;
  using Operand = __m512bh;
  static Operand load(const Word* p) { return __builtin_bit_cast(Operand, _mm512_loadu_si512(p)); }
  static Operand broadcast(const Word* p) {
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_bit_cast(Operand, _mm512_set1_epi32(v));
  }
  static Vec::F add(Vec::F c, Operand a, Operand b) { return _mm512_dpbf16_ps(c, a, b); }
};
#endif

struct TileArgs {
  const Word* a = nullptr;  // [rows][lda]
  std::int64_t lda = 0;
  const Word* b = nullptr;  // [steps][kVecs * lanes]
  std::int64_t steps = 0;
  float* c = nullptr;  // [rows][ldc]
  std::int64_t ldc = 0;
  bool accumulate = false;  // false: C is overwritten
  // One cache line from here is fetched into L2 after every `ahead_every` steps: the B that a later
  // tile needs.
  const char* ahead = nullptr;
  std::int64_t ahead_every = 0;  // 0: none
  float* top = nullptr;  // [rows][lanes]: largest values of C in each lane, for tracking tiles
};

enum class Track { None, First, Next };  // of TileArgs::top: set by the first, raised by the next

// The accumulators are an array of values, every loop over them is unrolled and nothing takes their
// address: anything else makes the compiler keep them in memory.
template <class Dot, int kRows, int kVecs, Track kTrack>
void tile(const TileArgs& t) {
  constexpr int kLanes = Vec::kLanes;
  Vec::F acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVecs; ++j) {
      acc[i][j] = t.accumulate ? Vec::load(t.c + i * t.ldc + j * kLanes) : Vec::zero();
    }
  }
  const Word* a = t.a;
  const Word* b = t.b;
  const std::int64_t lda = t.lda;
  const bool fetch = t.ahead_every > 0;
  const char* ahead = fetch ? t.ahead : reinterpret_cast<const char*>(t.a);
  const std::int64_t every = fetch ? t.ahead_every : t.steps;
  for (std::int64_t left = t.steps; left > 0; left -= every) {
    for (std::int64_t n = left < every ? left : every; n > 0; --n) {
      typename Dot::Operand bv[kVecs];
#pragma GCC unroll 8
      for (int j = 0; j < kVecs; ++j) bv[j] = Dot::load(b + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const auto av = Dot::broadcast(a + i * lda);
#pragma GCC unroll 8
        for (int j = 0; j < kVecs; ++j) acc[i][j] = Dot::add(acc[i][j], av, bv[j]);
      }
      b += kVecs * kLanes;
      a += Dot::kRowWords;
    }
    __builtin_prefetch(ahead, 0, 2);
    ahead += 64;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVecs; ++j) Vec::store(t.c + i * t.ldc + j * kLanes, acc[i][j]);
  }
  if constexpr (kTrack != Track::None) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      Vec::F top = acc[i][0];
#pragma GCC unroll 8
      for (int j = 1; j < kVecs; ++j) top = Vec::max(top, acc[i][j]);
      float* at = t.top + i * kLanes;
      Vec::store(at, kTrack == Track::First ? top : Vec::max(top, Vec::load(at)));
    }
  }
}

// tile() for 1 to kRows rows.
template <class Dot, int kRows, int kVecs, Track kTrack = Track::None>
inline void tile_rows(const TileArgs& t, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return tile_rows<Dot, kRows - 1, kVecs, kTrack>(t, rows);
  }
  tile<Dot, kRows, kVecs, kTrack>(t);
}

}  // namespace
}  // namespace difflet::cpu
