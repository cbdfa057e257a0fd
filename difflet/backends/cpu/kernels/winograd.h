// 3x3 convolution at stride 1 of channels-last bf16 pictures by Winograd's F(2x2, 3x3): each 2x2 tile
// of the result takes 16 products a pair of channels instead of 36, and 9 where a doubling of the
// picture (nearest neighbours) before the convolution is folded into it.
//   y [h', w', O] = residual + bias + conv(double(x [h, w, C]), weight [O, C, 3, 3])
// Tiles and weights are transformed in f32 and rounded to bf16; sums are f32.
#pragma once

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {

enum class Before : std::uint8_t { Nothing, Doubling };  // of the picture, by nearest neighbours

struct WinogradDesc {
  std::int64_t in_channels = 0, out_channels = 0;
  Before before = Before::Nothing;
};

struct WinogradArgs {
  WinogradDesc desc;
  std::int64_t height = 0, width = 0;          // of x
  std::int64_t out_height = 0, out_width = 0;  // of y
  std::int64_t pad_top = 0, pad_left = 0;   // zeros around the (doubled) picture; outside is zero
  const std::uint16_t* x = nullptr;         // [h, w, C]
  const void* packed = nullptr;             // from pack()
  const float* bias = nullptr;              // [O] or null
  const std::uint16_t* residual = nullptr;  // [h', w', O] or null; may be y
  std::uint16_t* y = nullptr;               // [h', w', O]
};

struct WinogradKernel {
  const char* name;          // "conv.winograd.bf16"; also names its packing
  const char* doubled_name;  // the same for a doubled picture
  Level level;
  // Null when the kernel takes the description, else the reason for the refusal.
  const char* (*refuse)(const WinogradDesc&) noexcept;
  std::size_t (*packed_bytes)(const WinogradDesc&) noexcept;
  // w f32 [O, C, 3, 3]; returns false when a value is NaN or Inf.
  bool (*pack)(const WinogradDesc&, const float* w, void* packed) noexcept;
  std::int64_t (*tasks)(const WinogradArgs&) noexcept;
  std::size_t (*scratch_bytes)(const WinogradDesc&) noexcept;  // of a task, 64-byte aligned
  void (*run)(const WinogradArgs&, std::int64_t task, void* scratch) noexcept;
};

// The one of the level; null below AVX-512 with bf16 products, where the products of a tile would not
// be faster than what the transforms cost.
const WinogradKernel* winograd_kernel(Level level) noexcept;

}  // namespace difflet::cpu
