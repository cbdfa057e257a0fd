// Convolution through oneDNN: channels-last pictures cut into bands of rows, each run by one of our
// threads with one-threaded primitives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::cpu {

struct ConvDesc {
  std::int64_t batch = 1, height = 0, width = 0, in_channels = 0;  // of x, [B, h, w, C]
  std::int64_t out_height = 0, out_width = 0, out_channels = 0;    // of y, [B, h', w', O]
  std::int64_t kernel_h = 1, kernel_w = 1, stride = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t groups = 1;
  Elem elem = Elem::F32;  // of x and y
};

// Ways to compute one: Winograd and Direct in f32 (bf16 is widened in each band), DirectBf16 with
// bf16 products.
enum class ConvAlgorithm : std::uint8_t { Winograd, DirectBf16, Direct };

// From the first that is tried. In bf16 Winograd is 1.1 to 1.5 times as fast from 256 channels on and slower
// below, but it holds about eight times the weights and 100 MB of scratch a thread
// (docs/benchmarks.md, "Convolution").
inline constexpr std::array kConvAlgorithms{ConvAlgorithm::DirectBf16, ConvAlgorithm::Winograd,
                                            ConvAlgorithm::Direct};
std::string_view conv_algorithm_name(ConvAlgorithm algorithm) noexcept;  // "conv.winograd.f32"
// Why the algorithm does not fit; empty when it does.
std::string_view conv_refusal(const ConvDesc& desc, Level level, ConvAlgorithm algorithm) noexcept;

class ConvKernel {
 public:
  // The best that oneDNN has for the level. Throws Unsupported.
  static std::shared_ptr<ConvKernel> create(const ConvDesc& desc, Level level);
  // This one, for benchmarks and tests; null where it cannot be.
  static std::shared_ptr<ConvKernel> create(const ConvDesc& desc, Level level,
                                            ConvAlgorithm algorithm);
  virtual ~ConvKernel() = default;

  virtual std::string_view name() const noexcept = 0;  // "conv.winograd.f32"
  // Names what pack() makes of a weight, for every picture size: "conv.winograd.f32.<digest>".
  virtual std::string_view layout() const noexcept = 0;
  virtual std::size_t packed_bytes() const noexcept = 0;
  virtual std::size_t scratch_bytes() const noexcept = 0;  // a thread
  // weight [O, C/groups, kh, kw], any float dtype; fills packed_bytes(). Returns false when a value is
  // NaN or Inf.
  virtual bool pack(const HostTensor& weight, std::byte* packed) const = 0;
  // Makes the machine code, which takes milliseconds a kernel; once, before run(). Throws Unsupported,
  // ResourceExhausted.
  virtual void generate() = 0;
  virtual std::int64_t tasks() const noexcept = 0;
  // x and y contiguous; bias f32 [O] or null. May be called by several threads, each with its own
  // scratch.
  virtual void run(const void* x, const std::byte* packed, const float* bias, void* y,
                   std::int64_t task, std::byte* scratch) const = 0;
};

}  // namespace difflet::cpu
