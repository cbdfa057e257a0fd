// The tile instructions of AMX, behind the interface that the kernels of the level are written over:
// eight tiles of 16 rows x 64 bytes, named by constants. amx_tiles_emulated.h has the same interface in
// plain C++, for tests on any chip. Private to the kernel units of the level.
#pragma once

#include <cstdint>

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// A tile holds 16 x 16 f32 or s32, 16 x 32 bf16, or 16 x 64 s8. As a right factor it holds 16 pairs of
// bf16 (fours of s8) along K x 16 columns x 2 (4).
constexpr std::int64_t kTileRows = 16, kTileK = 32, kTileBytes = 1024, kTileRowBytes = 64;
constexpr std::int64_t kTileS8K = 64;

// The three tiles of a product have to be different ones.
template <int kC, int kA, int kB>
constexpr bool are_distinct_tiles() {
  return kC != kA && kC != kB && kA != kB;
}

// Own assembly: compilers' intrinsics do not say which memory they read and write, and g++ 12's
// configuration load reads 8 of its 64 bytes as far as the optimizer knows. The compiler itself never
// uses a tile, so that no clobber of tiles is needed.
struct AmxTiles {
  struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };

  // Before the first and after the last tile of a task. Released tiles need not be saved when the
  // thread is switched.
  static void configure() {
    static constexpr Shapes kShapes;
    __asm__ volatile("ldtilecfg %0" : : "m"(kShapes));
  }
  static void release() { __asm__ volatile("tilerelease" : : : "memory"); }

  template <int kTile>
  [[gnu::always_inline]] static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // `stride`: bytes between rows.
  template <int kTile>
  [[gnu::always_inline]] static void load(const void* p, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(p), "r"(stride), "i"(kTile)
                     : "memory");
  }
  // The same for data that passes: it does not push the rest out of L1.
  template <int kTile>
  [[gnu::always_inline]] static void load_passing(const void* p, std::int64_t stride) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(p), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(void* p, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(p), "r"(stride), "i"(kTile)
                     : "memory");
  }
  // C += A . B, bf16 pairs along K into f32.
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void dot() {
    static_assert(are_distinct_tiles<kC, kA, kB>());
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // C += A . B, fours of s8 along K into s32, which wraps around.
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void dot_s8() {
    static_assert(are_distinct_tiles<kC, kA, kB>());
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

static_assert(sizeof(AmxTiles::Shapes) == 64);

}  // namespace
}  // namespace difflet::cpu
