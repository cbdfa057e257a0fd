// The product that the kernels over tiles are made of: 32 x 32 sums from 2 x 2 tiles (1 x 2 for 16 rows),
// with other work between the products of tiles.
// Private to the kernel units of the level.
#pragma once

#include "difflet/backends/cpu/kernels/amx_tiles.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// The factor that is read once: its tiles are loaded so that they leave the other's in L1.
enum class Passing { Left, Right };

// What tiles multiply: pairs of bf16 into sums in f32, or fours of bytes into sums in 32-bit integers, which
// lie in the same memory. A step along K is a tile: 32 bf16 or 64 bytes.
enum class Factors { Bf16, Bytes };

// Tiles 0-3 hold sums, 4 and 5 the left factor, 6 and 7 the right one: one load for each product.
template <class Tiles, Factors kFactors = Factors::Bf16>
struct AmxProduct {
  static constexpr std::int64_t kRows = 2 * kTileRows;        // of a block of sums, [32][32] f32
  static constexpr std::int64_t kCols = 32;                   // of a block of sums
  static constexpr std::int64_t kStepBytes = 2 * kTileBytes;  // of the right factor, a step
  static constexpr std::int64_t kFloats = kRows * kCols;      // of a block of sums
  static constexpr std::int64_t kStride = kCols * 4;          // of a block of sums, bytes

  struct Block {
    const char* a = nullptr;               // tiles of the first strip of 16 rows
    std::int64_t strip_bytes = 0;          // to the second
    std::int64_t step_bytes = kTileBytes;  // of a, to the next step
    const char* b = nullptr;               // [steps][2 x 16 columns]
    std::int64_t steps = 0;                // >= 1
    const float* from = nullptr;           // sums so far; null: none
    float* pending = nullptr;  // where the sums that the tiles still hold belong; null: none
  };

  // Tile kTile of the sums is stored where it belongs and takes up this block's sums.
  template <int kTile>
  [[gnu::always_inline]] static void enter(const Block& b) {
    constexpr std::int64_t kAt = kTile / 2 * kTileRows * kCols + kTile % 2 * 16;
    if (b.pending != nullptr) Tiles::template store<kTile>(b.pending + kAt, kStride);
    if (b.from == nullptr) {
      Tiles::template zero<kTile>();
    } else {
      Tiles::template load<kTile>(b.from + kAt, kStride);
    }
  }

  template <int kTile, bool kPasses>
  [[gnu::always_inline]] static void load(const char* p) {
    if constexpr (kPasses) {
      Tiles::template load_passing<kTile>(p, kTileRowBytes);
    } else {
      Tiles::template load<kTile>(p, kTileRowBytes);
    }
  }

  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void dot() {
    if constexpr (kFactors == Factors::Bytes) {
      Tiles::template dot_s8<kC, kA, kB>();
    } else {
      Tiles::template dot<kC, kA, kB>();
    }
  }

  // One step of K. slot.behind<i, first>() is what is done behind product i = 0 ... 3; in the first step
  // the pending sums are stored before it only from i = 3 on.
  template <int kStrips, Passing kPassing, bool kFirst, class Slot>
  [[gnu::always_inline]] static void step(const Block& blk, const char* a, const char* b,
                                          Slot& slot) {
    constexpr bool kLeft = kPassing == Passing::Left;
    load<4, kLeft>(a);
    load<6, !kLeft>(b);
    if constexpr (kFirst) enter<0>(blk);
    dot<0, 4, 6>();
    slot.template behind<0, kFirst>();
    load<7, !kLeft>(b + kTileBytes);
    if constexpr (kFirst) enter<1>(blk);
    dot<1, 4, 7>();
    slot.template behind<1, kFirst>();
    if constexpr (kStrips == 2) {
      load<5, kLeft>(a + blk.strip_bytes);
      if constexpr (kFirst) enter<2>(blk);
      dot<2, 5, 6>();
    }
    slot.template behind<2, kFirst>();
    if constexpr (kStrips == 2) {
      if constexpr (kFirst) enter<3>(blk);
      dot<3, 5, 7>();
    }
    slot.template behind<3, kFirst>();
  }

  // The block's sums are left in the tiles.
  template <int kStrips, Passing kPassing, class Slot>
  static void multiply(const Block& blk, Slot& shared_slot) {
    Slot slot = shared_slot;  // in registers
    const char* a = blk.a;
    const char* b = blk.b;
    step<kStrips, kPassing, true>(blk, a, b, slot);
#pragma GCC unroll 1
    for (std::int64_t k = 1; k < blk.steps; ++k) {
      a += blk.step_bytes;
      b += kStepBytes;
      step<kStrips, kPassing, false>(blk, a, b, slot);
    }
    shared_slot = slot;
  }

  // The sums that the tiles still hold.
  struct Pending {
    float* to = nullptr;
    int strips = 0;

    void store() {
      if (to == nullptr) return;
      Tiles::template store<0>(to, kStride);
      Tiles::template store<1>(to + 16, kStride);
      if (strips == 2) {
        Tiles::template store<2>(to + kTileRows * kCols, kStride);
        Tiles::template store<3>(to + kTileRows * kCols + 16, kStride);
      }
      to = nullptr;
    }
  };
};

}  // namespace
}  // namespace difflet::cpu
