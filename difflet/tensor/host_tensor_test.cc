#include "difflet/tensor/host_tensor.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

HostTensor counting(const Shape& shape) {
  HostTensor t(DType::F32, shape);
  float next = 0;
  for (float& x : t.mutable_as<float>()) {
    x = next++;
  }
  return t;
}

bool is_aligned(const HostTensor& t, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(t.bytes().data()) % to == 0;
}

TEST(HostTensor, OwnedIsZeroAndAligned) {
  for (const std::int64_t n : {0, 1, 7, 1000}) {
    HostTensor t(DType::BF16, {n, 3});
    EXPECT_EQ(t.bytes().size(), static_cast<std::size_t>(6 * n));
    EXPECT_TRUE(is_aligned(t, 64));
    EXPECT_THAT(t.bytes(), Each(std::byte{0}));
  }
}

TEST(HostTensor, AllocationFailureIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers end the process instead";
#endif
  EXPECT_ERROR(HostTensor(DType::F32, {std::int64_t{1} << 46}), ErrorCode::ResourceExhausted,
               "cannot allocate");
}

TEST(HostTensor, FromChecksTheCount) {
  const std::array<float, 3> values = {1, 2, 3};
  EXPECT_THAT(HostTensor::from({3}, values).as<float>(), ElementsAre(1, 2, 3));
  EXPECT_ERROR(HostTensor::from({2, 2}, values), ErrorCode::InvalidArgument, "3 values");
  const std::array<std::int32_t, 2> ints = {-1, 5};
  EXPECT_EQ(HostTensor::from({2}, ints).dtype(), DType::I32);
}

TEST(HostTensor, CopiesShareAndAreNotWritten) {
  HostTensor a = counting({4});
  const HostTensor b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  EXPECT_ERROR(a.mutable_bytes(), ErrorCode::Internal, "shared");
}

TEST(HostTensor, AViewKeepsItsOwner) {
  const auto owner = std::make_shared<std::array<float, 4>>(std::array<float, 4>{1, 2, 3, 4});
  HostTensor view(DType::F32, {2, 2}, std::as_bytes(std::span(*owner)), owner);
  EXPECT_EQ(view.as<float>().data(), owner->data());
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_ERROR(view.mutable_bytes(), ErrorCode::Internal, "shared");
  EXPECT_ERROR(HostTensor(DType::F32, {3}, std::as_bytes(std::span(*owner)), owner),
               ErrorCode::InvalidArgument, "16 bytes");
}

TEST(HostTensor, UnalignedBytesAreCopied) {
  const auto owner = std::make_shared<std::array<std::byte, 9>>();
  (*owner)[1] = std::byte{1};
  const HostTensor t(DType::I64, {1}, std::span(*owner).subspan(1), owner);
  EXPECT_TRUE(is_aligned(t, 8));
  EXPECT_THAT(t.as<std::int64_t>(), ElementsAre(1));
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(HostTensor, ConvertsFloats) {
  const std::array<float, 3> values = {1.0F, 1.0F + 0x1p-9F, -70000.0F};
  const HostTensor t = HostTensor::from({3}, values);
  EXPECT_THAT(t.to(DType::BF16).to_floats(), ElementsAre(1.0F, 1.0F, -70144.0F));
  EXPECT_THAT(t.to(DType::F16).to_floats(),
              ElementsAre(1.0F, 1.0F + 0x1p-9F, -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(t.to(DType::BF16).to(DType::F16).to(DType::F32).to_floats(),
              ElementsAre(1.0F, 1.0F, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(t.to(DType::F32).bytes().data(), t.bytes().data());
}

TEST(HostTensor, ConvertsIntegers) {
  const std::array<std::int32_t, 3> values = {0, -2, 7};
  const HostTensor t = HostTensor::from({3}, values);
  EXPECT_THAT(t.to(DType::I64).as<std::int64_t>(), ElementsAre(0, -2, 7));
  EXPECT_THAT(t.to(DType::Bool).as<std::uint8_t>(), ElementsAre(0, 1, 1));
  EXPECT_THAT(t.to(DType::Bool).to(DType::I32).as<std::int32_t>(), ElementsAre(0, 1, 1));
  EXPECT_THAT(t.to(DType::I64).to_floats(), ElementsAre(0, -2, 7));
  EXPECT_ERROR(t.to(DType::F32), ErrorCode::InvalidArgument, "from i32 to f32");
  EXPECT_ERROR(counting({1}).to(DType::Bool), ErrorCode::InvalidArgument, "from f32 to bool");
  HostTensor large(DType::I64, {1});
  large.mutable_as<std::int64_t>()[0] = std::int64_t{1} << 31;
  EXPECT_ERROR(large.to(DType::I32), ErrorCode::InvalidArgument, "2147483648 does not fit");
}

TEST(HostTensor, Reshapes) {
  const HostTensor t = counting({2, 3});
  EXPECT_EQ(t.reshaped({3, 2}).bytes().data(), t.bytes().data());
  EXPECT_ERROR(t.reshaped({4}), ErrorCode::InvalidArgument, "[2, 3] to [4]");
}

TEST(HostTensor, NarrowsAlongEachAxis) {
  const HostTensor t = counting({2, 3, 2});
  EXPECT_THAT(t.narrow(0, 1, 1).to_floats(), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(t.narrow(1, 1, 2).to_floats(), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(t.narrow(2, 1, 1).to_floats(), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_EQ(t.narrow(1, 3, 0).shape(), (Shape{2, 0, 2}));
  EXPECT_ERROR(t.narrow(1, 2, 2), ErrorCode::InvalidArgument, "outside [2, 3, 2]");
  EXPECT_ERROR(t.narrow(1, -1, 1), ErrorCode::InvalidArgument, "outside");
  EXPECT_ERROR(t.narrow(1, std::numeric_limits<std::int64_t>::max(), 1), ErrorCode::InvalidArgument,
               "outside");
  EXPECT_ERROR(t.narrow(3, 0, 1), ErrorCode::InvalidArgument, "outside");
}

TEST(HostTensor, TheDefaultIsEmpty) {
  EXPECT_TRUE(HostTensor().bytes().empty());
  EXPECT_TRUE(HostTensor().to_floats().empty());
}

}  // namespace
}  // namespace difflet
