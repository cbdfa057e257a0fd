// The interface of amx_tiles.h in plain C++, for tests: TDPBF16PS and TDPBSSD after the pseudo code of
// Intel's manual (Software Developer's Manual, volume 2; felixcloutier.com/x86/tdpbf16ps), not compared
// with a chip. Never part of the product.
#pragma once

#include <cstdint>

#include "difflet/backends/cpu/kernels/amx_tiles.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

struct EmulatedTiles {
  struct State {
    alignas(64) unsigned char tile[8][kTileBytes];
    bool configured = false;
  };
  static thread_local State state;

  static void configure() {
    // What configuring does: all tiles become zero.
    __builtin_memset(state.tile, 0, sizeof state.tile);
    state.configured = true;
  }
  static void release() {
    require_configured();
    state.configured = false;
  }
  // On a chip the instruction would fault.
  static void require_configured() {
    if (!state.configured) __builtin_trap();
  }

  template <int kTile>
  static void zero() {
    require_configured();
    __builtin_memset(state.tile[kTile], 0, kTileBytes);
  }
  template <int kTile>
  static void load(const void* p, std::int64_t stride) {
    require_configured();
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      __builtin_memcpy(state.tile[kTile] + r * kTileRowBytes,
                       static_cast<const char*>(p) + r * stride, kTileRowBytes);
    }
  }
  template <int kTile>
  static void load_passing(const void* p, std::int64_t stride) {
    load<kTile>(p, stride);
  }
  template <int kTile>
  static void store(void* p, std::int64_t stride) {
    require_configured();
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      __builtin_memcpy(static_cast<char*>(p) + r * stride, state.tile[kTile] + r * kTileRowBytes,
                       kTileRowBytes);
    }
  }
  // For each element of C the products of the even and of the odd places along K are summed apart, by
  // fused multiply-adds in f32; then the two sums are added, and their sum to C. Every one of these
  // rounds to nearest even, takes denormals for zero and gives zero for them ("FP32 FMA with DAZ=FTZ=1,
  // RNE rounding", whatever MXCSR says).
  template <int kC, int kA, int kB>
  static void dot() {
    static_assert(are_distinct_tiles<kC, kA, kB>());
    require_configured();
    for (std::int64_t m = 0; m < kTileRows; ++m) {
      float even[16] = {};
      float odd[16] = {};
      for (std::int64_t k = 0; k < 16; ++k) {
        const std::uint32_t a = word<kA>(m, k);
        const float a0 = value(a << 16);
        const float a1 = value(a & 0xffff0000U);
        for (std::int64_t n = 0; n < 16; ++n) {
          const std::uint32_t b = word<kB>(k, n);
          even[n] = flushed(__builtin_fmaf(a0, value(b << 16), even[n]));
          odd[n] = flushed(__builtin_fmaf(a1, value(b & 0xffff0000U), odd[n]));
        }
      }
      for (std::int64_t n = 0; n < 16; ++n) {
        const float c = value(word<kC>(m, n));
        const float sum = flushed(c + flushed(even[n] + odd[n]));
        __builtin_memcpy(state.tile[kC] + m * kTileRowBytes + n * 4, &sum, 4);
      }
    }
  }
  // TDPBSSD: exact, modulo 2^32.
  template <int kC, int kA, int kB>
  static void dot_s8() {
    static_assert(are_distinct_tiles<kC, kA, kB>());
    require_configured();
    for (std::int64_t m = 0; m < kTileRows; ++m) {
      for (std::int64_t n = 0; n < 16; ++n) {
        std::uint32_t sum = word<kC>(m, n);
        for (std::int64_t k = 0; k < 16; ++k) {
          const std::uint32_t a = word<kA>(m, k);
          const std::uint32_t b = word<kB>(k, n);
          for (int shift = 0; shift < 32; shift += 8) {
            sum += static_cast<std::uint32_t>(signed_byte(a >> shift) * signed_byte(b >> shift));
          }
        }
        __builtin_memcpy(state.tile[kC] + m * kTileRowBytes + n * 4, &sum, 4);
      }
    }
  }

 private:
  static std::int32_t signed_byte(std::uint32_t v) { return static_cast<std::int8_t>(v & 0xff); }
  template <int kTile>
  static std::uint32_t word(std::int64_t row, std::int64_t column) {
    std::uint32_t v = 0;
    __builtin_memcpy(&v, state.tile[kTile] + row * kTileRowBytes + column * 4, 4);
    return v;
  }
  // The f32 of these bits, denormals taken for zero of their sign.
  static float value(std::uint32_t bits) {
    const std::uint32_t kept = (bits & 0x7f800000U) == 0 ? bits & 0x80000000U : bits;
    return __builtin_bit_cast(float, kept);
  }
  static float flushed(float v) { return value(__builtin_bit_cast(std::uint32_t, v)); }
};

thread_local EmulatedTiles::State EmulatedTiles::state;

}  // namespace
}  // namespace difflet::cpu
