#include "difflet/tensor/shape.h"

#include <limits>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Shape, Basics) {
  const Shape s = {2, 3, 4};
  EXPECT_EQ(s.rank(), 3U);
  EXPECT_EQ(s.elements(), 24);
  EXPECT_EQ(s[1], 3);
  EXPECT_EQ(s.dim(-1), 4);
  EXPECT_EQ(s.axis(-3), 0U);
  EXPECT_EQ(s.str(), "[2, 3, 4]");
  EXPECT_EQ(s.with(1, 7), (Shape{2, 7, 4}));
  EXPECT_NE(s, (Shape{2, 3}));
  EXPECT_NE(s, (Shape{2, 3, 5}));
}

TEST(Shape, AScalarHasOneElement) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().str(), "[]");
  EXPECT_EQ(Shape(), Shape(std::initializer_list<std::int64_t>{}));
}

TEST(Shape, ZeroExtentsAreFine) { EXPECT_EQ((Shape{4, 0, 3}).elements(), 0); }

TEST(Shape, RefusesWhatItCannotHold) {
  EXPECT_ERROR((Shape{2, -1}), ErrorCode::InvalidArgument, "[2, -1]");
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ErrorCode::InvalidArgument, "rank 9");
  EXPECT_ERROR((Shape{kMax, 2}), ErrorCode::InvalidArgument, "too large");
  EXPECT_ERROR((Shape{kMax}), ErrorCode::InvalidArgument, "too large");
  EXPECT_ERROR((Shape{0, kMax, kMax}), ErrorCode::InvalidArgument, "too large");
  EXPECT_EQ((Shape{kMax / 8}).elements(), kMax / 8);
}

TEST(Shape, RefusesAxesOutOfRange) {
  const Shape s = {2, 3};
  EXPECT_ERROR(s.dim(2), ErrorCode::InvalidArgument, "axis 2");
  EXPECT_ERROR(s.dim(-3), ErrorCode::InvalidArgument, "axis -3");
  EXPECT_ERROR(s.with(2, 1), ErrorCode::InvalidArgument, "axis 2");
  EXPECT_ERROR(s.with(0, -1), ErrorCode::InvalidArgument, "negative");
  EXPECT_ERROR(Shape().dim(0), ErrorCode::InvalidArgument, "axis 0");
}

}  // namespace
}  // namespace difflet
