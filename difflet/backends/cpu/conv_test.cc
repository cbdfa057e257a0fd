#include "difflet/backends/cpu/conv.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/testing.h"
#include "difflet/tensor/compare.h"

namespace difflet::cpu {
namespace {

using testing::numbers;

ConvDesc same_size(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                   Elem elem = Elem::F32) {
  return {.batch = 2,
          .height = height,
          .width = width,
          .in_channels = in,
          .out_height = height,
          .out_width = width,
          .out_channels = out,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_top = 1,
          .pad_left = 1,
          .pad_bottom = 1,
          .pad_right = 1,
          .elem = elem};
}

// Half a picture down with the encoder's one-sided padding.
ConvDesc halved(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out) {
  ConvDesc d = same_size(height, width, in, out);
  d.stride = 2;
  d.pad_top = d.pad_left = 0;
  d.out_height = (height + 1 - 3) / 2 + 1;
  d.out_width = (width + 1 - 3) / 2 + 1;
  return d;
}

// Twice as large, by nearest neighbours, before the convolution.
ConvDesc doubled(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out) {
  ConvDesc d = same_size(height, width, in, out);
  d.before = Before::Doubling;
  d.out_height *= 2;
  d.out_width *= 2;
  return d;
}

HostTensor input_of(const ConvDesc& d) {
  return numbers(DType::F32, {d.batch, d.height, d.width, d.in_channels}, 1);
}
HostTensor weight_of(const ConvDesc& d) {
  return numbers(DType::F32, {d.out_channels, d.in_channels / d.groups, d.kernel_h, d.kernel_w}, 2);
}
HostTensor bias_of(const ConvDesc& d) { return numbers(DType::F32, {d.out_channels}, 3); }

// The definition, in f64.
HostTensor expected(const ConvDesc& d) {
  const HostTensor x = input_of(d);
  const HostTensor w = weight_of(d);
  const HostTensor bias = bias_of(d);
  HostTensor y(DType::F32, {d.batch, d.out_height, d.out_width, d.out_channels});
  const auto at = [](const HostTensor& t, std::int64_t i) {
    return static_cast<double>(t.as<float>()[static_cast<std::size_t>(i)]);
  };
  std::size_t next = 0;
  const std::int64_t factor = d.before == Before::Doubling ? 2 : 1;
  const std::int64_t in_group = d.in_channels / d.groups;
  const std::int64_t out_group = d.out_channels / d.groups;
  const auto result = y.mutable_as<float>();
  for (std::int64_t b = 0; b < d.batch; ++b) {
    for (std::int64_t row = 0; row < d.out_height; ++row) {
      for (std::int64_t column = 0; column < d.out_width; ++column) {
        for (std::int64_t o = 0; o < d.out_channels; ++o) {
          double sum = at(bias, o);
          for (std::int64_t tap = 0; tap < d.kernel_h * d.kernel_w; ++tap) {
            const std::int64_t r = row * d.stride - d.pad_top + tap / d.kernel_w;
            const std::int64_t c = column * d.stride - d.pad_left + tap % d.kernel_w;
            if (r < 0 || c < 0 || r >= d.height * factor || c >= d.width * factor) {
              continue;
            }
            const std::int64_t pixel =
                ((b * d.height + r / factor) * d.width + c / factor) * d.in_channels;
            for (std::int64_t i = 0; i < in_group; ++i) {
              sum += at(x, pixel + o / out_group * in_group + i) *
                     at(w, (o * in_group + i) * d.kernel_h * d.kernel_w + tap);
            }
          }
          result[next++] = static_cast<float>(sum);
        }
      }
    }
  }
  return y;
}

HostTensor run(ConvKernel& kernel, const ConvDesc& d, const void* residual = nullptr) {
  kernel.generate();
  const DType dtype = d.elem == Elem::F32 ? DType::F32 : DType::BF16;
  const HostTensor x = input_of(d).to(dtype);
  const HostTensor bias = bias_of(d);
  HostTensor y(dtype, {d.batch, d.out_height, d.out_width, d.out_channels});
  // HostTensor aligns its bytes as the packed weights and scratch want it.
  HostTensor packed(DType::Bool, {static_cast<std::int64_t>(kernel.packed_bytes())});
  HostTensor scratch(DType::Bool, {static_cast<std::int64_t>(kernel.scratch_bytes())});
  EXPECT_TRUE(kernel.pack(weight_of(d), packed.mutable_bytes().data()));
  for (std::int64_t task = 0; task < kernel.tasks(); ++task) {
    kernel.run({.x = x.bytes().data(),
                .packed = packed.bytes().data(),
                .bias = bias.as<float>().data(),
                .residual = residual,
                .y = y.mutable_bytes().data()},
               task, scratch.mutable_bytes().data());
  }
  return y;
}

// ---- every algorithm is the definition ----------------------------------------------------------

class Algorithms : public ::testing::TestWithParam<ConvAlgorithm> {};
INSTANTIATE_TEST_SUITE_P(All, Algorithms, ::testing::ValuesIn(kConvAlgorithms));

TEST_P(Algorithms, EqualTheDefinition) {
  int tried = 0;
  for (const Elem elem : {Elem::F32, Elem::Bf16}) {
    for (ConvDesc d :
         {same_size(35, 21, 64, 80), same_size(19, 40, 16, 48), same_size(9, 17, 48, 3),
          same_size(9, 17, 3, 32), halved(22, 19, 32, 32), same_size(21, 13, 96, 144),
          same_size(1, 1, 32, 32), doubled(9, 17, 64, 80), doubled(1, 2, 32, 32)}) {
      d.elem = elem;
      const auto kernel = ConvKernel::create(d, detect_level(), GetParam());
      if (kernel == nullptr) {
        continue;
      }
      ++tried;
      const Difference difference = compare(run(*kernel, d), expected(d));
      const double rounded = GetParam() == ConvAlgorithm::WinogradBf16 ? 5e-3 : 3e-3;
      EXPECT_LE(difference.relative, elem == Elem::F32 ? 5e-6 : rounded)
          << kernel->name() << difference.str();
    }
  }
  if (tried == 0) {
    GTEST_SKIP() << "oneDNN has none at " << level_name(detect_level());
  }
}

TEST_P(Algorithms, AddTheResidual) {
  ConvDesc d = same_size(9, 14, 64, 80);
  for (const Elem elem : {Elem::F32, Elem::Bf16}) {
    d.elem = elem;
    const auto kernel = ConvKernel::create(d, detect_level(), GetParam());
    if (kernel == nullptr) {
      continue;
    }
    const DType dtype = elem == Elem::F32 ? DType::F32 : DType::BF16;
    const HostTensor residual =
        numbers(DType::F32, {d.batch, d.out_height, d.out_width, d.out_channels}, 4);
    HostTensor sum = expected(d);
    for (std::size_t i = 0; i < sum.as<float>().size(); ++i) {
      sum.mutable_as<float>()[i] += residual.as<float>()[i];
    }
    const HostTensor added = residual.to(dtype);
    const Difference difference = compare(run(*kernel, d, added.bytes().data()), sum);
    EXPECT_LE(difference.relative, elem == Elem::F32 ? 5e-6 : 5e-3)
        << kernel->name() << difference.str();
  }
}

// The value of a pixel does not depend on the picture around its neighbours, whatever tiles are cut.
TEST(WinogradBf16, IsTheSameInAPartOfThePicture) {
  ConvDesc whole = same_size(40, 26, 64, 64, Elem::Bf16);
  whole.batch = 1;
  if (!conv_refusal(whole, detect_level(), ConvAlgorithm::WinogradBf16).empty()) {
    GTEST_SKIP() << "no bf16 products";
  }
  ConvDesc upper = whole;
  upper.out_height = 20;
  const HostTensor all = run(*make_winograd(whole, detect_level()), whole);
  const HostTensor part = run(*make_winograd(upper, detect_level()), upper);
  EXPECT_EQ(std::memcmp(all.bytes().data(), part.bytes().data(), part.bytes().size()), 0);
}

TEST(Direct, TakesGroups) {
  ConvDesc d = same_size(12, 10, 32, 16);
  d.groups = 4;
  const auto kernel = ConvKernel::create(d, detect_level());
  EXPECT_LE(compare(run(*kernel, d), expected(d)).relative, 1e-6);
}

// ---- choice -------------------------------------------------------------------------------------

TEST(Choice, IsWinograd) {
  const ConvDesc wide = same_size(64, 64, 512, 512);
  if (ConvKernel::create(wide, detect_level(), ConvAlgorithm::Winograd) == nullptr) {
    GTEST_SKIP() << "no Winograd below AVX-512 or in this build of oneDNN";
  }
  const auto name = [](std::int64_t in, std::int64_t out, Elem elem) {
    return std::string(
        ConvKernel::create(same_size(64, 64, in, out, elem), detect_level())->name());
  };
  EXPECT_TRUE(name(512, 512, Elem::F32).starts_with("conv.winograd.f32"));
  EXPECT_TRUE(name(128, 128, Elem::F32).starts_with("conv.winograd.f32"));
  EXPECT_TRUE(name(16, 512, Elem::F32).starts_with("conv.direct.f32"));
  if (detect_level() >= Level::Avx512Bf16) {
    EXPECT_EQ(name(512, 512, Elem::Bf16), "conv.winograd.bf16");
    EXPECT_TRUE(name(16, 512, Elem::Bf16).starts_with("conv.direct.bf16"));
    EXPECT_TRUE(name(128, 3, Elem::Bf16).starts_with("conv.direct.bf16"));
  }
}

TEST(Choice, IsNeverOneDnnsReferenceForThePictureDecoder) {
  for (const Elem elem : {Elem::F32, Elem::Bf16}) {
    for (const auto& [in, out] : {std::pair(16, 512), std::pair(512, 512), std::pair(128, 3)}) {
      const auto kernel = ConvKernel::create(same_size(64, 64, in, out, elem), detect_level());
      EXPECT_EQ(kernel->name().find("ref"), std::string_view::npos) << kernel->name();
    }
  }
}

TEST(Scratch, DoesNotGrowWithTheHeight) {
  const auto bytes = [](std::int64_t height) {
    return ConvKernel::create(same_size(height, 128, 512, 512), detect_level())->scratch_bytes();
  };
  EXPECT_EQ(bytes(128), bytes(1024));
  EXPECT_LE(bytes(1024), std::size_t{80} << 20U);
}

TEST(Pack, FindsNanInAnyDtype) {
  const ConvDesc d = same_size(8, 8, 16, 16);
  const auto kernel = ConvKernel::create(d, detect_level());
  std::vector<std::byte> packed(kernel->packed_bytes());
  HostTensor w = weight_of(d);
  EXPECT_TRUE(kernel->pack(w.to(DType::F16), packed.data()));
  w.mutable_as<float>()[100] = std::nanf("");
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    EXPECT_FALSE(kernel->pack(w.to(dtype), packed.data()));
  }
}

}  // namespace
}  // namespace difflet::cpu
