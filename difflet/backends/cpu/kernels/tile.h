// The register tile that every product of the kernels is made of:
//   C[kRows, kVecs * lanes] (+)= A[kRows, steps] . B[steps, kVecs * lanes]
// One step consumes one 32-bit word of each column of B and of each row of A: one f32, or along K two bf16,
// two 16-bit integers or four bytes. Private to the kernel units; include after one vec_*.h.
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

inline int int_of(const Word* p) {
  int v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Elements of K in one word.
template <Elem kWord>
constexpr std::int64_t word_elems() {
  return 4 / bytes_of(kWord);
}

// The sums of a tile: f32, or 32-bit integers that lie in the same memory.
struct FloatSums {
  using Sum = Vec::F;
  static constexpr bool kInts = false;
  static Sum zero() { return Vec::zero(); }
  static Sum load_sum(const float* p) { return Vec::load(p); }
  static void store_sum(float* p, Sum v) { Vec::store(p, v); }
};
struct IntSums {
  using Sum = Vec::W;
  static constexpr bool kInts = true;
  static Sum zero() { return Vec::zero_words(); }
  static Sum load_sum(const float* p) { return Vec::load_words(p); }
  static void store_sum(float* p, Sum v) { Vec::store_words(p, v); }
};

// What a tile multiplies with. kElems: elements of K in a word; kSteps: steps that a word of B lasts;
// kOffset: what bytes of B have been increased by, so that the sums of a row start at minus so many times
// the sum of its A; stored(w): bytes as B holds them; widen(w, s): step s of words of B that hold more
// elements than a word of A.

// f32 multiply-add.
struct DotF32 : FloatSums {
  static constexpr bool kPairs = false;
  static constexpr int kElems = 1, kSteps = 1, kOffset = 0;
  using Operand = Vec::F;
  static Operand operand(Vec::W w, int /*step*/) { return Vec::as_floats(w); }
  static Operand broadcast(const Word* p) { return Vec::set1(float_of(p)); }
  static Sum add(Sum c, Operand a, Operand b) { return Vec::fma(a, b, c); }

  template <Elem kStored>
  static Vec::W widen(Vec::W w, int step) {
    if constexpr (kStored == Elem::Bf16) {
      return Vec::as_words(step == 0 ? Vec::low_bf16(w) : Vec::high_bf16(w));
    } else {
      return Vec::as_words(Vec::float_of_byte(w, step));
    }
  }
  static Vec::W stored(Vec::W bytes) { return Vec::stored_bytes(bytes); }
};

#ifdef __AVX512BF16__
// Two bf16 products a step, accumulated in f32.
struct DotBf16 : FloatSums {
  static constexpr bool kPairs = true;
  static constexpr int kElems = 2, kSteps = 1, kOffset = 0;
  using Operand = __m512bh;
  static Operand operand(Vec::W w, int /*step*/) { return __builtin_bit_cast(Operand, w); }
  static Operand broadcast(const Word* p) {
    return __builtin_bit_cast(Operand, _mm512_set1_epi32(int_of(p)));
  }
  static Sum add(Sum c, Operand a, Operand b) { return _mm512_dpbf16_ps(c, a, b); }

  // The f32 of a byte has nothing below its bf16.
  template <Elem kStored>
  static Vec::W widen(Vec::W w, int step) {
    static_assert(kStored == Elem::I8);
    const Vec::F low = Vec::float_of_byte(w, 2 * step);
    const Vec::F high = Vec::float_of_byte(w, 2 * step + 1);
    return Vec::words_or(_mm512_srli_epi32(Vec::as_words(low), 16), Vec::as_words(high));
  }
  static Vec::W stored(Vec::W bytes) { return Vec::stored_bytes(bytes); }
};
#endif

// Two products of 16-bit integers a step. Bytes are stored with the middle two of a word exchanged.
struct DotI16 : IntSums {
  static constexpr bool kPairs = true;
  static constexpr int kElems = 2, kSteps = 1, kOffset = 0;
  using Operand = Vec::W;
  static Operand operand(Vec::W w, int /*step*/) { return w; }
  static Operand broadcast(const Word* p) { return Vec::set1_word(int_of(p)); }
  static Sum add(Sum c, Operand a, Operand b) { return Vec::add_words(c, Vec::dot16(a, b)); }

  template <Elem kStored>
  static Vec::W widen(Vec::W w, int step) {
    static_assert(kStored == Elem::I8);
    return step == 0 ? Vec::low_bytes(w) : Vec::high_bytes(w);
  }
  static Vec::W stored(Vec::W bytes) { return Vec::exchange_middle_bytes(bytes); }
};

#ifdef __AVX512VNNI__
// Four products a step of bytes, of which those of B must be unsigned: they are stored with 128 added.
struct DotI8 : IntSums {
  static constexpr bool kPairs = false;
  static constexpr int kElems = 4, kSteps = 1, kOffset = 128;
  using Operand = Vec::W;
  static Operand operand(Vec::W w, int /*step*/) { return w; }
  static Operand broadcast(const Word* p) { return Vec::set1_word(int_of(p)); }
  // The intrinsic makes g++ 12 move accumulators between registers and spill them: half the speed.
  static Sum add(Sum c, Operand a, Operand b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
  }
  static Vec::W stored(Vec::W bytes) { return Vec::stored_bytes(bytes); }
};
#endif

// The products of Dot with a B that is stored in fewer bits and widened on the way: for so few rows that
// widening it beforehand would take longer than the products.
template <class Dot, Elem kStored>
struct Widening : Dot {
  static constexpr int kSteps = static_cast<int>(word_elems<kStored>()) / Dot::kElems;
  static typename Dot::Operand operand(Vec::W w, int step) {
    return Dot::operand(Dot::template widen<kStored>(w, step), 0);
  }
};

struct TileArgs {
  const Word* a = nullptr;  // [rows][lda]
  std::int64_t lda = 0;
  const Word* b = nullptr;  // [steps][kVecs * lanes]
  std::int64_t steps = 0;
  float* c = nullptr;  // [rows][ldc]
  std::int64_t ldc = 0;
  const std::int32_t* start = nullptr;  // [rows]: where sums start, for dots with an offset
  bool accumulate = false;              // false: C is overwritten
  // From here `ahead_bytes` are fetched into L2 after every `ahead_every` steps: the B that a later tile
  // needs.
  const char* ahead = nullptr;
  std::int64_t ahead_bytes = 64;
  std::int64_t ahead_every = 0;  // 0: none
  float* top = nullptr;  // [rows][lanes]: largest values of C in each lane, for tracking tiles
};

enum class Track { None, First, Next };  // of TileArgs::top: set by the first, raised by the next

// The accumulators are an array of values, every loop over them is unrolled and nothing takes their
// address: anything else makes the compiler keep them in memory.
template <class Dot, int kRows, int kVecs, Track kTrack>
void tile(const TileArgs& t) {
  constexpr int kLanes = Vec::kLanes;
  typename Dot::Sum acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    typename Dot::Sum start = Dot::zero();
    if constexpr (Dot::kOffset != 0) start = Vec::set1_word(t.start[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVecs; ++j) {
      acc[i][j] = t.accumulate ? Dot::load_sum(t.c + i * t.ldc + j * kLanes) : start;
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
#pragma GCC unroll 4
      for (int s = 0; s < Dot::kSteps; ++s) {
        typename Dot::Operand bv[kVecs];
#pragma GCC unroll 8
        for (int j = 0; j < kVecs; ++j) {
          bv[j] = Dot::operand(Vec::load_words(b + j * kLanes), s);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const auto av = Dot::broadcast(a + i * lda + s);
#pragma GCC unroll 8
          for (int j = 0; j < kVecs; ++j) acc[i][j] = Dot::add(acc[i][j], av, bv[j]);
        }
      }
      b += kVecs * kLanes;
      a += Dot::kSteps;
    }
    const char* const end = ahead + t.ahead_bytes;
    do {
      __builtin_prefetch(ahead, 0, 2);
      ahead += 64;
    } while (ahead < end);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVecs; ++j) Dot::store_sum(t.c + i * t.ldc + j * kLanes, acc[i][j]);
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
