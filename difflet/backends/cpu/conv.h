// Convolution of channels-last pictures: by our own Winograd kernel (conv_winograd.cc) or through oneDNN,
// cut into bands of rows, each run by one of our threads with one-threaded primitives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"
#include "difflet/backends/cpu/kernels/winograd.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::cpu {

struct ConvDesc {
  std::int64_t batch = 1, height = 0, width = 0, in_channels = 0;  // of x, [B, h, w, C]
  std::int64_t out_height = 0, out_width = 0, out_channels = 0;    // of y, [B, h', w', O]
  std::int64_t kernel_h = 1, kernel_w = 1, stride = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t groups = 1;
  Elem elem = Elem::F32;            // of x and y
  Before before = Before::Nothing;  // of x; height and width are those of x as stored
};

// Ways to compute one: WinogradBf16 and DirectBf16 with bf16 products, Winograd and Direct in f32 (bf16
// is widened in each band). Only WinogradBf16 takes a doubled picture.
enum class ConvAlgorithm : std::uint8_t { WinogradBf16, Winograd, DirectBf16, Direct };

// From the first that is tried. For bf16, Winograd in f32 is slower than WinogradBf16 and holds 4.5 times
// its weights and 100 MB of scratch a thread (docs/benchmarks.md, "Convolution").
inline constexpr std::array kConvAlgorithms{ConvAlgorithm::WinogradBf16, ConvAlgorithm::DirectBf16,
                                            ConvAlgorithm::Winograd, ConvAlgorithm::Direct};
std::string_view conv_algorithm_name(ConvAlgorithm algorithm) noexcept;  // "conv.winograd.f32"
// Why the algorithm does not fit; empty when it does.
std::string_view conv_refusal(const ConvDesc& desc, Level level, ConvAlgorithm algorithm) noexcept;

// Operands, contiguous; y = conv(x) + bias + residual.
struct ConvData {
  const void* x = nullptr;
  const std::byte* packed = nullptr;  // of pack()
  const float* bias = nullptr;        // [O], or null
  const void* residual = nullptr;     // as y, may be y; or null
  void* y = nullptr;
};

class ConvKernel {
 public:
  // The best for the level. Throws Unsupported.
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
  // May be called by several threads, each with its own scratch.
  virtual void run(const ConvData& data, std::int64_t task, std::byte* scratch) const = 0;
};

// Null where conv_refusal() has a reason.
std::shared_ptr<ConvKernel> make_winograd(const ConvDesc& desc, Level level);

}  // namespace difflet::cpu
