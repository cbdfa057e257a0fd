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
  T::dot_s8<0, 1, 1>();
  T::store<0>(c.data(), 64);
  T::release();
  for (const std::int32_t v : c) EXPECT_EQ(v, std::numeric_limits<std::int32_t>::min());
}

}  // namespace
}  // namespace difflet::cpu
