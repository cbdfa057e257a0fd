// The Winograd kernels of the levels, the one over tiles through emulated tiles: against a convolution in
// double, and against each other.
#include "difflet/backends/cpu/kernels/winograd.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/amx_emulated.h"
#include "difflet/backends/cpu/kernels/test_tensor.h"

namespace difflet::cpu {
namespace {

using testing::TestScratch;
using testing::TestTensor;

struct Case {
  std::int64_t in_channels = 32, out_channels = 32;
  std::int64_t height = 4, width = 4;  // of x
  Before before = Before::Nothing;
  bool bias = false, residual = false;
};

std::vector<const WinogradKernel*> kernels() {
  if (detect_level() < Level::Avx512Bf16) return {};
  return {winograd_kernel(Level::Avx512Bf16), &kWinogradAmxEmulated, &kWinogradAmxEmulatedSmall};
}

// Operands of a case; pixels are padded by one.
class Convolution {
 public:
  explicit Convolution(const Case& c)
      : c_(c),
        scale_(c.before == Before::Doubling ? 2 : 1),
        x_(TestTensor::random(c.height * c.width * c.in_channels, Elem::Bf16, 1, 1)),
        w_(TestTensor::random(c.out_channels * c.in_channels * 9, Elem::F32, 1, 2)),
        bias_(TestTensor::random(c.out_channels, Elem::F32, 2, 3)),
        residual_(TestTensor::random(size(), Elem::Bf16, 2, 4)) {
    for (std::int64_t i = 0; i < c.out_channels * c.in_channels * 9; ++i) {
      w_.set(i, testing::from_bf16(testing::to_bf16(static_cast<float>(w_.get(i)))));
    }
  }

  TestTensor run(const WinogradKernel& kernel) const {
    WinogradArgs a;
    a.desc = {c_.in_channels, c_.out_channels, c_.before};
    a.height = c_.height, a.width = c_.width;
    a.out_height = c_.height * scale_, a.out_width = c_.width * scale_;
    a.pad_top = a.pad_left = 1;
    TestTensor y(size(), Elem::Bf16);
    TestScratch packed(kernel.packed_bytes(a.desc));
    EXPECT_TRUE(kernel.pack(a.desc, static_cast<const float*>(w_.data()), packed.data()));
    a.x = static_cast<const std::uint16_t*>(x_.data());
    a.packed = packed.data();
    if (c_.bias) a.bias = static_cast<const float*>(bias_.data());
    if (c_.residual) a.residual = static_cast<const std::uint16_t*>(residual_.data());
    a.y = static_cast<std::uint16_t*>(y.data());
    TestScratch scratch(kernel.scratch_bytes(a.desc));
    for (std::int64_t t = kernel.tasks(a) - 1; t >= 0; --t) kernel.run(a, t, scratch.data());
    return y;
  }

  double direct(std::int64_t row, std::int64_t column, std::int64_t channel) const {
    double sum = c_.bias ? bias_.get(channel) : 0;
    for (std::int64_t i = 0; i < 9; ++i) {
      const std::int64_t r = row + i / 3 - 1;
      const std::int64_t q = column + i % 3 - 1;
      if (r < 0 || q < 0 || r >= c_.height * scale_ || q >= c_.width * scale_) continue;
      const std::int64_t pixel = r / scale_ * c_.width + q / scale_;
      for (std::int64_t k = 0; k < c_.in_channels; ++k) {
        sum += x_.get(pixel * c_.in_channels + k) * w_.get((channel * c_.in_channels + k) * 9 + i);
      }
    }
    if (c_.residual) sum += residual_.get(at(row, column, channel));
    return sum;
  }
  std::int64_t at(std::int64_t row, std::int64_t column, std::int64_t channel) const {
    return (row * c_.width * scale_ + column) * c_.out_channels + channel;
  }
  std::int64_t size() const { return c_.height * c_.width * scale_ * scale_ * c_.out_channels; }
  std::int64_t scale() const { return scale_; }

 private:
  Case c_;
  std::int64_t scale_;
  TestTensor x_, w_, bias_, residual_;
};

constexpr Case kCases[] = {
    {.in_channels = 32, .out_channels = 32},
    {.in_channels = 64, .out_channels = 48, .height = 7, .width = 9, .bias = true},
    {.in_channels = 96, .out_channels = 80, .height = 5, .width = 31, .residual = true},
    {.in_channels = 32, .out_channels = 64, .height = 33, .width = 20, .bias = true},
    {.in_channels = 512, .out_channels = 32, .height = 20, .width = 22},
    {.height = 3, .width = 5, .before = Before::Doubling, .bias = true},
    {.in_channels = 128,
     .out_channels = 112,
     .height = 9,
     .width = 10,
     .before = Before::Doubling,
     .residual = true},
};

TEST(Winograd, EveryKernelIsAConvolution) {
  if (kernels().empty()) GTEST_SKIP() << "no bf16 products";
  for (const Case& c : kCases) {
    const Convolution conv(c);
    std::vector<std::pair<std::int64_t, double>> wanted;  // of every seventh channel
    double squares = 0;
    for (std::int64_t row = 0; row < c.height * conv.scale(); ++row) {
      for (std::int64_t column = 0; column < c.width * conv.scale(); ++column) {
        for (std::int64_t o = 0; o < c.out_channels; o += 7) {
          wanted.emplace_back(conv.at(row, column, o), conv.direct(row, column, o));
          squares += wanted.back().second * wanted.back().second;
        }
      }
    }
    for (const WinogradKernel* kernel : kernels()) {
      const TestTensor y = conv.run(*kernel);
      double wrong = 0;
      for (const auto& [at, want] : wanted) {
        wrong += (y.get(at) - want) * (y.get(at) - want);
      }
      EXPECT_LE(std::sqrt(wrong / squares), 5e-3) << kernel->name << " C" << c.in_channels;
    }
  }
}

// Rounded at the same places, added up in another order.
TEST(Winograd, TilesGiveWhatRegistersGive) {
  if (kernels().empty()) GTEST_SKIP() << "no bf16 products";
  for (const Case& c : kCases) {
    const Convolution conv(c);
    const TestTensor want = conv.run(*kernels().front());
    for (const WinogradKernel* kernel : {&kWinogradAmxEmulated, &kWinogradAmxEmulatedSmall}) {
      const TestTensor y = conv.run(*kernel);
      for (std::int64_t i = 0; i < conv.size(); ++i) {
        ASSERT_NEAR(y.get(i), want.get(i), std::max(std::abs(want.get(i)) / 128, 1e-3))
            << kernel->name << " C" << c.in_channels;
      }
    }
    ASSERT_TRUE(conv.run(kWinogradAmxEmulated) == conv.run(kWinogradAmxEmulatedSmall))
        << "depends on how tiles are cut into tasks";
  }
}

TEST(Winograd, PackReportsNanAndInf) {
  if (kernels().empty()) GTEST_SKIP() << "no bf16 products";
  for (const WinogradKernel* kernel : kernels()) {
    std::vector<float> w(std::size_t{32} * 32 * 9, 1.0F);
    std::vector<char> packed(kernel->packed_bytes({32, 32, Before::Nothing}));
    EXPECT_TRUE(kernel->pack({32, 32, Before::Nothing}, w.data(), packed.data()));
    w[4000] = INFINITY;
    EXPECT_FALSE(kernel->pack({32, 32, Before::Nothing}, w.data(), packed.data()));
  }
}

TEST(Winograd, LevelsHaveTheirOwn) {
  EXPECT_EQ(winograd_kernel(Level::Avx512Vnni), nullptr);
  EXPECT_STREQ(winograd_kernel(Level::Avx512Bf16)->name, "conv.winograd.bf16");
  EXPECT_STREQ(winograd_kernel(Level::Amx)->name, "conv.winograd.amx");
  EXPECT_STREQ(winograd_kernel(Level::Amx)->doubled_name, "conv.winograd.amx.doubled");
}

}  // namespace
}  // namespace difflet::cpu
