// The emulated tile instructions against products in wider types.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/amx_tiles_emulated.h"
#include "difflet/backends/cpu/kernels/test_tensor.h"

namespace difflet::cpu {
namespace {

using T = EmulatedTiles;

TEST(EmulatedTiles, BytesAreMultipliedInFoursWithSign) {
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> byte(-128, 127);
  std::vector<std::int8_t> a(16 * 64);  // [row][64 along K]
  std::vector<std::int8_t> b(16 * 64);  // [four along K][column][4]
  for (auto& v : a) v = static_cast<std::int8_t>(byte(engine));
  for (auto& v : b) v = static_cast<std::int8_t>(byte(engine));
  std::vector<std::int32_t> c(16 * 20, 7);  // with a gap between rows
  T::configure();
  T::load<0>(c.data(), 80);
  T::load<1>(a.data(), 64);
  T::load_passing<2>(b.data(), 64);
  T::dot_s8<0, 1, 2>();
  T::dot_s8<0, 1, 2>();
  T::store<0>(c.data(), 80);
  T::release();
  for (std::size_t m = 0; m < 16; ++m) {
    for (std::size_t n = 0; n < 16; ++n) {
      int want = 0;
      for (std::size_t k = 0; k < 64; ++k) want += a[m * 64 + k] * b[k / 4 * 64 + n * 4 + k % 4];
      ASSERT_EQ(c[m * 20 + n], 7 + 2 * want) << m << " " << n;
    }
    for (std::size_t n = 16; n < 20; ++n) EXPECT_EQ(c[m * 20 + n], 7);
  }
}

TEST(EmulatedTiles, SumsOfBytesWrapAround) {
  const std::vector<std::int8_t> ones(16 * 64, 1);
  std::vector<std::int32_t> c(256, std::numeric_limits<std::int32_t>::max() - 63);
  T::configure();
  T::load<0>(c.data(), 64);
  T::load<1>(ones.data(), 64);
  T::load<2>(ones.data(), 64);
  T::dot_s8<0, 1, 2>();
  T::store<0>(c.data(), 64);
  T::release();
  for (const std::int32_t v : c) EXPECT_EQ(v, std::numeric_limits<std::int32_t>::min());
}

// C + A . B for one element: pairs along K of bf16 values, the others being zero.
struct Pair {
  float a0, b0, a1 = 0, b1 = 0;
};
float dot_of(const std::vector<Pair>& pairs, float c) {
  std::vector<std::uint16_t> a(16 * 32);
  std::vector<std::uint16_t> b(16 * 32);
  std::vector<float> sums(16 * 16);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    a[3 * 32 + 2 * k] = testing::to_bf16(pairs[k].a0);
    a[3 * 32 + 2 * k + 1] = testing::to_bf16(pairs[k].a1);
    b[k * 32 + 2 * 5] = testing::to_bf16(pairs[k].b0);
    b[k * 32 + 2 * 5 + 1] = testing::to_bf16(pairs[k].b1);
  }
  sums[3 * 16 + 5] = c;
  T::configure();
  T::load<7>(sums.data(), 64);
  T::load<4>(a.data(), 64);
  T::load<5>(b.data(), 64);
  T::dot<7, 4, 5>();
  T::store<7>(sums.data(), 64);
  T::release();
  return sums[3 * 16 + 5];
}

TEST(EmulatedTiles, EvenAndOddPlacesAreSummedApartAndThenAddedToC) {
  constexpr float kBig = 16777216;  // 2^24: one more is lost, one less is not
  EXPECT_EQ(dot_of({{kBig, 1, -kBig, 1}, {1, 1, 1, 1}}, 0), 1);
  EXPECT_EQ(dot_of({{1, 1, 1, 1}}, kBig), kBig + 2);
}

TEST(EmulatedTiles, RoundsToNearestEven) {
  constexpr float kUlp = 0x1p-23F;
  EXPECT_EQ(dot_of({{1, 1}, {0x1p-12F, 0x1p-12F}}, 0), 1);            // a tie
  EXPECT_EQ(dot_of({{1, 1}, {0x1.8p-12F, 0x1p-12F}}, 0), 1 + kUlp);   // above
  EXPECT_EQ(dot_of({{0x1p-12F, 0x1p-12F}}, 1 + kUlp), 1 + 2 * kUlp);  // a tie to the even side
}

TEST(EmulatedTiles, DenormalsAreZeroAndProductsAreNotRounded) {
  EXPECT_EQ(dot_of({{0x1p-127F, 0x1p127F}}, 0), 0);  // a denormal factor
  EXPECT_EQ(dot_of({}, 0x1p-130F), 0);               // a denormal C
  EXPECT_EQ(dot_of({{0x1p-70F, 0x1p-60F}}, 0), 0);   // a denormal sum
  // A product that would be a denormal counts in full.
  EXPECT_EQ(dot_of({{0x1p-60F, 0x1p-65F}, {0x1p-74F, 0x1p-74F}}, 0), 0x1p-125F + 0x1p-148F);
}

TEST(EmulatedTiles, NanAndInfGoThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(dot_of({{inf, 1}}, 1), inf);
  EXPECT_TRUE(std::isnan(dot_of({{inf, 1, -inf, 1}}, 1)));
  EXPECT_TRUE(std::isnan(dot_of({{0, inf}}, 1)));
}

}  // namespace
}  // namespace difflet::cpu
