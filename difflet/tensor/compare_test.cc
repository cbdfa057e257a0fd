#include "difflet/tensor/compare.h"

#include <array>
#include <cmath>
#include <limits>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

HostTensor of(std::initializer_list<float> values) {
  return HostTensor::from({static_cast<std::int64_t>(values.size())},
                          std::span<const float>(values.begin(), values.size()));
}

TEST(Compare, EqualTensors) {
  const Difference d = compare(of({1, -2, 3}), of({1, -2, 3}));
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.relative, 0);
  EXPECT_DOUBLE_EQ(d.cosine, 1);
  EXPECT_TRUE(std::isinf(d.psnr));
  EXPECT_EQ(d.non_finite, 0);
}

TEST(Compare, Measures) {
  const Difference d = compare(of({3, 4, 0}), of({3, 0, 0}));
  EXPECT_EQ(d.max_abs, 4);
  EXPECT_EQ(d.worst, 1);
  EXPECT_EQ(d.a, 4);
  EXPECT_EQ(d.b, 0);
  EXPECT_DOUBLE_EQ(d.relative, 4.0 / 3.0);
  EXPECT_DOUBLE_EQ(d.cosine, 9.0 / 15.0);
  EXPECT_DOUBLE_EQ(d.psnr, 10 * std::log10(9.0 / (16.0 / 3.0)));
  EXPECT_NE(d.str().find("max abs 4 at 1 (4 against 0)"), std::string::npos) << d.str();
}

TEST(Compare, ValuesThatAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Difference d = compare(of({1, nan}), of({1, 2}));
  EXPECT_TRUE(std::isinf(d.max_abs));
  EXPECT_EQ(d.worst, 1);
  EXPECT_EQ(d.non_finite, 1);
  EXPECT_TRUE(std::isinf(d.relative));
  d = compare(of({1, 2}), of({1, inf}));
  EXPECT_TRUE(std::isinf(d.max_abs));
  EXPECT_EQ(d.non_finite, 0);
  d = compare(of({nan, inf, -inf}), of({nan, inf, -inf}));
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.non_finite, 3);
  EXPECT_TRUE(std::isinf(compare(of({inf}), of({-inf})).max_abs));
}

TEST(Compare, ZeroAndEmpty) {
  EXPECT_EQ(compare(of({0, 0}), of({0, 0})).cosine, 1);
  EXPECT_EQ(compare(of({1, 0}), of({0, 0})).cosine, 0);
  EXPECT_TRUE(std::isinf(compare(of({1, 0}), of({0, 0})).relative));
  EXPECT_EQ(compare(of({}), of({})).max_abs, 0);
}

TEST(Compare, DtypesMayDiffer) {
  EXPECT_EQ(compare(of({1, 2}).to(DType::BF16), of({1, 2})).max_abs, 0);
}

TEST(Compare, ShapesMustNot) {
  EXPECT_ERROR(compare(of({1, 2}), of({1, 2}).reshaped({2, 1})), ErrorCode::InvalidArgument,
               "[2] and [2, 1]");
}

}  // namespace
}  // namespace difflet
