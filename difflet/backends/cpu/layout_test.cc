// The layouts of packed weights, pinned. Stored weights outlive the build that packed them: pieces of
// one name must hold the same bytes for ever.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/conv.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/testing.h"

namespace difflet::cpu {
namespace {

constexpr std::string_view kChanged =
    "the layout of packed weights changed: give the kernel another name (it names the layout) and "
    "raise "
    "kProgramFormat in backends/cpu/backend.cc; only then pin the new digest here";

std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte b : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3U;
  }
  return hash;
}

// More than one block of panels and chunk of K for every kernel, none of them full.
constexpr std::int64_t kN = 1100, kK = 1501, kKOfBytes = 3301;
constexpr std::size_t kAlignment = 64;

std::uint64_t packed_digest(const LinearKernel& kernel) {
  const std::string_view name = kernel.name;
  const bool bytes = name.ends_with(".w8a16") || name.ends_with(".w8a8");
  const Elem elem = name.ends_with(".f32") ? Elem::F32 : Elem::Bf16;
  const std::int64_t k = bytes ? kKOfBytes : kK;
  const LinearDesc desc{.n = kN,
                        .k = k,
                        .x = elem,
                        .w = bytes ? Elem::I8 : elem,
                        .y = elem,
                        .products = name.ends_with(".w8a8") ? Products::Bytes : Products::Floats};
  EXPECT_EQ(kernel.refuse(desc), nullptr);
  const HostTensor w = testing::numbers(bytes ? DType::I8 : DType::F32, {kN, k}, 7);
  std::vector<std::byte> packed(kernel.packed_bytes(desc), std::byte{0xff});
  EXPECT_TRUE(
      kernel.pack(desc, w.bytes().data(), bytes ? Elem::I8 : Elem::F32, 0, kN, packed.data()));
  return digest(packed);
}

TEST(Layout, OfEachLinearKernelIsPinned) {
  const std::map<std::string_view, std::uint64_t> pinned{
      {"linear.scalar.f32", 0x1a6837f72f8fa521},
      {"linear.scalar.bf16", 0x33e79c91f73a3dad},
      {"linear.avx2.f32", 0x2f9103de0c9d2071},
      {"linear.avx2.bf16", 0xca3b0a9fcbe6e2c1},
      {"linear.avx512.f32", 0xe4fd05dc504fa71d},
      {"linear.avx512.bf16", 0xa40511c7e988bae1},
      {"linear.avx512bf16.bf16", 0x2b8ff4fed1672335},
      {"linear.amx.bf16", 0xeefee540f64be38d},
      {"linear.amx.w8a16", 0xaf74c5146d824bbf},
      {"linear.amx.w8a8", 0xe011b552fd7c358f},
      {"linear.scalar.w8a16", 0x83c4d053ae8f035f},
      {"linear.scalar.w8a8", 0x670c13c02f17d23f},
      {"linear.avx2.w8a16", 0x9078c726c988ef63},
      {"linear.avx2.w8a8", 0x2899b8ff3fa271a3},
      {"linear.avx512.w8a16", 0x9f9aa2e28cc50fff},
      {"linear.avx512.w8a8", 0x27e33f48f8a8452b},
      {"linear.avx512vnni.w8a8", 0x3586698245555f27},
      {"linear.avx512bf16.w8a16", 0xb7232000a477bc37}};
  const LinearKernelList list = linear_kernels();
  EXPECT_EQ(list.size, pinned.size());
  for (std::size_t i = 0; i < list.size; ++i) {
    const LinearKernel& kernel = *list.items[i];
    // Packing for tiles uses none.
    if (std::min(kernel.level, Level::Avx512Bf16) <= detect_level()) {
      EXPECT_EQ(packed_digest(kernel), pinned.at(kernel.name)) << kernel.name << ": " << kChanged;
    }
  }
}

TEST(Layout, OfEachWinogradKernelIsPinned) {
  if (detect_level() < Level::Avx512Bf16) {
    GTEST_SKIP() << "no bf16 products";
  }
  constexpr std::int64_t kIn = 96, kOut = 112;  // not whole panels
  const HostTensor w = testing::numbers(DType::F32, {kOut, kIn, 3, 3}, 7);
  const std::map<std::string_view, std::uint64_t> pinned{
      {"conv.winograd.bf16", 0x18a9557847555319},
      {"conv.winograd.bf16.doubled", 0x1c0d6815cbde7a9d},
      {"conv.winograd.amx", 0xc1b6b1fe2f26cd0d},
      {"conv.winograd.amx.doubled", 0xb134bac1b8c2ef01}};
  for (const Level level : {Level::Avx512Bf16, Level::Amx}) {  // packing for tiles uses none
    const WinogradKernel& kernel = *winograd_kernel(level);
    for (const Before before : {Before::Nothing, Before::Doubling}) {
      const WinogradDesc desc{kIn, kOut, before};
      std::vector<std::byte> packed(kernel.packed_bytes(desc), std::byte{0xff});
      EXPECT_TRUE(kernel.pack(desc, w.as<float>().data(), packed.data()));
      const char* const name = before == Before::Nothing ? kernel.name : kernel.doubled_name;
      EXPECT_EQ(digest(packed), pinned.at(name)) << name << ": " << kChanged;
    }
  }
}

ConvDesc conv(std::int64_t size, std::int64_t channels, Elem elem) {
  return {.batch = 1,
          .height = size,
          .width = size,
          .in_channels = channels,
          .out_height = size,
          .out_width = size,
          .out_channels = channels,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_top = 1,
          .pad_left = 1,
          .pad_bottom = 1,
          .pad_right = 1,
          .elem = elem};
}

// One name, one layout: whatever picture size, element type of x or level asks for it.
TEST(Layout, OfAConvolutionIsWhatItsNameSays) {
  std::map<std::string, std::uint64_t> seen;
  for (const std::int64_t channels : {8, 24, 64}) {
    const HostTensor w = testing::numbers(DType::F32, {channels, channels, 3, 3}, 3);
    for (const Elem elem : {Elem::F32, Elem::Bf16}) {
      for (const std::int64_t size : {8, 33, 128}) {
        for (const auto algorithm :
             {ConvAlgorithm::Winograd, ConvAlgorithm::DirectBf16, ConvAlgorithm::Direct}) {
          const auto kernel =
              ConvKernel::create(conv(size, channels, elem), detect_level(), algorithm);
          if (kernel == nullptr) {
            continue;
          }
          std::vector<std::byte> packed(kernel->packed_bytes() + kAlignment, std::byte{0xff});
          std::byte* aligned = packed.data() + kAlignment -
                               reinterpret_cast<std::uintptr_t>(packed.data()) % kAlignment;
          ASSERT_TRUE(kernel->pack(w, aligned));
          const std::uint64_t bytes = digest({aligned, kernel->packed_bytes()});
          const auto [known, fresh] =
              seen.try_emplace(fmt::format("{} {}", channels, kernel->layout()), bytes);
          EXPECT_EQ(known->second, bytes) << known->first << " at " << size;
        }
      }
    }
  }
  EXPECT_GE(seen.size(), 3U);
}

}  // namespace
}  // namespace difflet::cpu
