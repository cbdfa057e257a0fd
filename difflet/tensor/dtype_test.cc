#include "difflet/tensor/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace difflet {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The value of f16 bits by its definition.
double f16_value(std::uint16_t h) {
  const int exponent = (h >> 10U) & 0x1f;
  const int mantissa = h & 0x3ff;
  const double sign = (h & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, -24);
  }
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(DType, NamesAndSizes) {
  for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::Bool,
                        DType::U8, DType::I8}) {
    EXPECT_EQ(parse_dtype(dtype_name(t)), t);
  }
  EXPECT_EQ(dtype_name(DType::BF16), "bf16");
  EXPECT_EQ(parse_dtype("f64"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::F32), 4U);
  EXPECT_EQ(dtype_bytes(DType::F16), 2U);
  EXPECT_EQ(dtype_bytes(DType::BF16), 2U);
  EXPECT_EQ(dtype_bytes(DType::I32), 4U);
  EXPECT_EQ(dtype_bytes(DType::I64), 8U);
  EXPECT_EQ(dtype_bytes(DType::Bool), 1U);
  EXPECT_EQ(dtype_bytes(DType::U8), 1U);
  EXPECT_FALSE(is_float(DType::U8));
  EXPECT_TRUE(is_float(DType::BF16));
  EXPECT_FALSE(is_float(DType::I32));
}

TEST(F16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const float f = f16_to_f32(h);
    if ((h & 0x7c00U) == 0x7c00U && (h & 0x3ffU) != 0) {
      EXPECT_TRUE(std::isnan(f)) << h;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f)))) << h;
      continue;
    }
    EXPECT_EQ(f32_to_f16(f), h);
    if ((h & 0x7c00U) == 0x7c00U) {
      EXPECT_EQ(f, (h & 0x8000U) != 0 ? -kInf : kInf);
    } else {
      EXPECT_EQ(static_cast<double>(f), f16_value(h)) << h;
    }
  }
}

// Between each pair of neighbours: the middle goes to the even one, a hair off the middle to the nearer.
TEST(F16, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((f16_value(low) + f16_value(high)) / 2);
    EXPECT_EQ(f32_to_f16(middle), (bits & 1U) == 0 ? low : high) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), low) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, kInf)), high) << bits;
    EXPECT_EQ(f32_to_f16(-middle), ((bits & 1U) == 0 ? low : high) | 0x8000U) << bits;
  }
}

TEST(F16, Extremes) {
  EXPECT_EQ(f32_to_f16(65504.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(65536.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-kInf), 0xfc00);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0);
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25F, 1.0F)), 1);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(BF16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(round_bf16(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(round_bf16(std::nextafter(1.0F + 0x1p-8F, 2.0F)), 1.0F + 0x1p-7F);
  EXPECT_EQ(round_bf16(1.0F + 0x1.8p-7F), 1.0F + 0x1p-6F);
  EXPECT_EQ(round_bf16(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(round_bf16(-kInf), -kInf);
}

TEST(BF16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(bits)))) << bits;
  }
}

}  // namespace
}  // namespace difflet
