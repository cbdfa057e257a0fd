#include "difflet/compile/int8_weight.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "difflet/base/testing.h"

namespace difflet::compile {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Int8Weights : public ::testing::Test {
 protected:
  Int8Weight quantise(const HostTensor& w, std::span<const float> smooth = {}) {
    return quantise_weight("w", w, smooth, threads_);
  }
  static std::vector<int> values(const Int8Weight& weight) {
    const auto all = weight.values.as<std::int8_t>();
    return {all.begin(), all.end()};
  }
  static std::vector<float> scales(const Int8Weight& weight) { return weight.scale.to_floats(); }
  // [n, k], as torch.randn would not give it: with rows of many magnitudes.
  static HostTensor wide(std::int64_t n, std::int64_t k) {
    HostTensor w(DType::F32, {n, k});
    std::uint32_t state = 7;
    std::int64_t i = 0;
    for (float& v : w.mutable_as<float>()) {
      state = state * 1664525U + 1013904223U;
      v = (static_cast<float>(state >> 8U) * 0x1p-23F - 1) *
          std::ldexp(1.0F, static_cast<int>(i++ / k % 30) - 18);
    }
    return w;
  }
  ThreadPool threads_{2};
};

TEST_F(Int8Weights, OneScaleARowAndTiesToEven) {
  const Int8Weight q =
      quantise(HostTensor::from({2, 4}, std::vector<float>{127, 0.5F, 1.5F, -2.5F,  //
                                                           -254, 1, 3, 2}));
  EXPECT_EQ(q.values.dtype(), DType::I8);
  EXPECT_EQ(q.values.shape(), (Shape{2, 4}));
  EXPECT_EQ(q.scale.shape(), Shape{2});
  EXPECT_THAT(scales(q), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(values(q), ElementsAre(127, 0, 2, -2, -127, 0, 2, 1));
}

TEST_F(Int8Weights, RowsOfZerosAndOfTinyNumbers) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const Int8Weight q = quantise(HostTensor::from(
      {3, 2}, std::vector<float>{0, -0.0F, tiny, -tiny, std::numeric_limits<float>::max(), -1}));
  EXPECT_EQ(scales(q)[0], 1.0F);
  EXPECT_EQ(scales(q)[1], std::numeric_limits<float>::min());
  EXPECT_THAT(values(q), ElementsAre(0, 0, 0, 0, 127, 0));
}

TEST_F(Int8Weights, EqualTheDefinitionInEveryDtype) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    const HostTensor w = wide(83, 301).to(dtype);
    const std::vector<float> floats = w.to_floats();
    const Int8Weight q = quantise(w);
    const std::vector<int> got = values(q);
    for (std::size_t n = 0; n < 83; ++n) {
      float largest = 0;
      for (std::size_t k = 0; k < 301; ++k) {
        largest = std::max(largest, std::abs(floats[n * 301 + k]));
      }
      ASSERT_EQ(scales(q)[n], largest / 127) << n;
      for (std::size_t k = 0; k < 301; ++k) {
        ASSERT_EQ(got[n * 301 + k],
                  static_cast<int>(std::nearbyint(floats[n * 301 + k] / (largest / 127))))
            << n << ", " << k;
      }
    }
    EXPECT_EQ(weight_scales("w", w, {}, threads_).to_floats(), scales(q));
  }
}

TEST_F(Int8Weights, DoNotDependOnTheNumberOfThreads) {
  const HostTensor w = wide(300, 1000).to(DType::BF16);
  ThreadPool one(1);
  const Int8Weight a = quantise_weight("w", w, {}, one);
  const Int8Weight b = quantise(w);
  EXPECT_EQ(values(a), values(b));
  EXPECT_EQ(scales(a), scales(b));
}

TEST_F(Int8Weights, NaNAndInfinityAreRefused) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      HostTensor w = wide(9, 30);
      w.mutable_as<float>()[200] = bad;
      EXPECT_ERROR(quantise(w.to(dtype)), ErrorCode::DataLoss, "tensor 'w' holds NaN or Inf");
      EXPECT_ERROR((void)weight_scales("w", w.to(dtype), {}, threads_), ErrorCode::DataLoss, "'w'");
      EXPECT_ERROR((void)smoothing("w", std::vector<float>(30, 1.0F), w.to(dtype), threads_),
                   ErrorCode::DataLoss, "'w'");
    }
  }
}

TEST_F(Int8Weights, OtherKindsOfTensorsAreRefused) {
  EXPECT_ERROR(quantise(HostTensor(DType::F32, {4})), ErrorCode::InvalidArgument, "not a matrix");
  EXPECT_ERROR(quantise(HostTensor(DType::I32, {4, 4})), ErrorCode::InvalidArgument, "i32");
  EXPECT_ERROR(quantise(HostTensor(DType::F32, {4, 4}), std::vector<float>(3, 1.0F)),
               ErrorCode::InvalidArgument, "4 columns, smoothing has 3 values");
}

TEST_F(Int8Weights, SmoothingEvensTheColumnsOut) {
  // Column 1 of x is large, so that the weight takes a part of it; column 2 of the weight is nothing.
  const HostTensor w = HostTensor::from({2, 3}, std::vector<float>{1, -1, 0, 0.5F, 0.5F, 0});
  const std::vector<float> smooth = smoothing("w", std::vector<float>{1, 16, 4}, w, threads_);
  EXPECT_THAT(smooth, ElementsAre(2.0F, 0.5F, 1.0F / 32));
  const Int8Weight q = quantise(w, smooth);
  EXPECT_THAT(scales(q), ElementsAre(2.0F / 127, 1.0F / 127));
  EXPECT_THAT(values(q), ElementsAre(32, -127, 0, 32, 127, 0));
  EXPECT_THAT(smoothing("w", std::vector<float>{0, 0, 0}, w, threads_), Each(1.0F));
  EXPECT_THAT(smoothing("w", std::vector<float>{1, 2, 3}, HostTensor(DType::F32, {2, 3}), threads_),
              Each(1.0F));
}

TEST_F(Int8Weights, SmoothingHardlyMovesWhatWasHardlySeen) {
  HostTensor w(DType::F32, {2, 8});
  std::ranges::fill(w.mutable_as<float>(), 1.0F);
  for (const float seen : {0.0F, 1e-40F, 1e-6F, 0.1F}) {
    const std::vector<float> smooth =
        smoothing("w", std::vector<float>{1, 1, seen, 1, 1, 1, 1, 1}, w, threads_);
    EXPECT_NEAR(smooth[2] / smooth[0], 2, 1e-3) << seen;
  }
  // Of a large one only so much goes into the weight, however the weight's own columns differ.
  w.mutable_as<float>()[5] = 1e12F;
  const std::vector<float> smooth =
      smoothing("w", std::vector<float>{1, 1e6F, 1, 1, 1, 1, 1e30F, 1e-30F}, w, threads_);
  EXPECT_EQ(smooth[5], 4.0F);
  EXPECT_EQ(smooth[6], 1.0F / 32);
  EXPECT_THAT(smooth, Each(::testing::AllOf(::testing::Ge(1.0F / 32), ::testing::Le(4.0F))));
}

TEST_F(Int8Weights, StatisticsThatDoNotFitAreRefused) {
  const HostTensor w = wide(2, 3);
  EXPECT_ERROR((void)smoothing("w", std::vector<float>{1, 1}, w, threads_),
               ErrorCode::InvalidArgument, "3 columns, its statistics have 2 values");
  EXPECT_ERROR((void)smoothing("w", std::vector<float>{1, -1, 1}, w, threads_),
               ErrorCode::InvalidArgument, "column 1");
  EXPECT_ERROR((void)smoothing("w", std::vector<float>{1, 1, std::nanf("")}, w, threads_),
               ErrorCode::InvalidArgument, "column 2");
}

}  // namespace
}  // namespace difflet::compile
