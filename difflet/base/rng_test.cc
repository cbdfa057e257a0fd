// Golden numbers: torch 2.15.0 on CPU with AVX2 and with AVX-512 (equal), in order of use:
//   g = torch.Generator(); g.manual_seed(seed); torch.randn(n, generator=g, dtype=...)
// and for long draws zlib.crc32(t.view(torch.int32 or int16).numpy().tobytes()).
#include "difflet/base/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace difflet {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<float> draw(TorchGenerator& g, std::size_t n) {
  std::vector<float> out(n);
  g.randn(out);
  return out;
}

// To the nearest value with `digits` binary digits and no bit below 2^lowest, ties to even.
float round_to(float x, int digits, int lowest) {
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, lowest));
  return static_cast<float>(std::nearbyint(x / unit) * unit);
}

float round_bf16(float x) { return round_to(x, 8, -133); }
float round_f16(float x) { return round_to(x, 11, -24); }

std::vector<float> draw_bf16(TorchGenerator& g, std::size_t n) {
  std::vector<float> out(n);
  g.randn_half(out);
  for (float& x : out) {
    x = round_bf16(x);
  }
  return out;
}

std::vector<float> draw_f16(TorchGenerator& g, std::size_t n) {
  std::vector<float> out(n);
  g.randn_half(out);
  for (float& x : out) {
    x = round_f16(x);
  }
  return out;
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0U ? 0xedb88320U : 0U);
    }
  }
  return ~crc;
}

std::uint32_t crc_f32(const std::vector<float>& v) { return crc32(std::as_bytes(std::span(v))); }

std::uint32_t crc_bf16(const std::vector<float>& v) {
  std::vector<std::uint16_t> bits;
  bits.reserve(v.size());
  for (const float x : v) {
    bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U));
  }
  return crc32(std::as_bytes(std::span(bits)));
}

// The values of std::mt19937, whose 10000th word the C++ standard fixes.
TEST(TorchGenerator, IsTheMersenneTwister) {
  TorchGenerator g(5489);
  EXPECT_EQ(g.next32(), 3499211612U);
  for (int i = 2; i < 10'000; ++i) {
    g.next32();
  }
  EXPECT_EQ(g.next32(), 4123659995U);
}

TEST(TorchGenerator, SixtyFourBitsTakeTheFirstWordHigh) {
  TorchGenerator a(3);
  TorchGenerator b(3);
  const std::uint64_t high = a.next32();
  EXPECT_EQ(b.next64(), (high << 32U) | a.next32());
}

TEST(TorchGenerator, SixteenValues) {
  TorchGenerator g(0);
  EXPECT_THAT(draw(g, 16), ElementsAre(-1.12583983F, -1.1523602F, -0.250578582F, -0.433878809F,
                                       0.848710358F, 0.692009151F, -0.31601277F, -2.11521935F,
                                       0.322274923F, -1.26333475F, 0.349983186F, 0.30813393F,
                                       0.119841509F, 1.2376579F, 1.11677718F, -0.247278154F));
}

TEST(TorchGenerator, HalfTypesRoundTheSameValues) {
  TorchGenerator g(0);
  EXPECT_THAT(draw_bf16(g, 16),
              ElementsAre(-1.125F, -1.15625F, -0.25F, -0.43359375F, 0.84765625F, 0.69140625F,
                          -0.31640625F, -2.109375F, 0.322265625F, -1.265625F, 0.349609375F,
                          0.30859375F, 0.11962890625F, 1.234375F, 1.1171875F, -0.2470703125F));
  TorchGenerator h(0);
  EXPECT_THAT(draw_f16(h, 16), ElementsAre(-1.12597656F, -1.15234375F, -0.250488281F, -0.433837891F,
                                           0.848632812F, 0.691894531F, -0.315917969F, -2.11523438F,
                                           0.322265625F, -1.26367188F, 0.350097656F, 0.308105469F,
                                           0.119812012F, 1.23730469F, 1.1171875F, -0.247314453F));
}

TEST(TorchGenerator, OnlyTheLow32BitsOfTheSeedCount) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1} << 63U}) {
    TorchGenerator g(seed);
    EXPECT_THAT(draw(g, 4), ElementsAre(1.54099607F, -0.293428898F, -2.17878938F, 0.568431258F));
  }
  for (const std::uint64_t seed : {std::uint64_t{5}, (std::uint64_t{1} << 32U) + 5}) {
    TorchGenerator g(seed);
    EXPECT_THAT(draw(g, 4), ElementsAre(-0.486780763F, -0.603821576F, -0.55809623F, 0.667524278F));
  }
  TorchGenerator odd((std::uint64_t{1} << 63U) + 1);
  EXPECT_THAT(draw(odd, 4), ElementsAre(0.661352158F, 0.266924113F, 0.0616772585F, 0.621317327F));
  TorchGenerator largest(~std::uint64_t{0});
  EXPECT_THAT(draw(largest, 4), ElementsAre(1.21976304F, -0.392979473F, 1.0230751F, -0.373421133F));
}

TEST(TorchGenerator, ShortDrawsKeepTheSecondValue) {
  TorchGenerator g(7);
  EXPECT_THAT(draw(g, 3), ElementsAre(-0.146795094F, 0.786141276F, 0.94682163F));
  EXPECT_THAT(draw(g, 4), ElementsAre(-1.114344F, 1.69079018F, -0.894827902F, -0.355625033F));
  EXPECT_FLOAT_EQ(draw(g, 16)[0], -1.58266461F);
}

TEST(TorchGenerator, TheKeptValueSurvivesALongDraw) {
  TorchGenerator g(7);
  draw(g, 3);
  const std::vector<float> block = draw(g, 16);
  EXPECT_EQ(block[0], -0.176437929F);
  EXPECT_EQ(block[15], -0.887490094F);
  EXPECT_THAT(draw(g, 1), ElementsAre(-1.114344F));
}

TEST(TorchGenerator, ARestIsDrawnAnew) {
  TorchGenerator g(42);
  EXPECT_THAT(
      draw(g, 21),
      ElementsAre(1.92691529F, 1.48728406F, 0.900717199F, -2.10552096F, 0.678418458F, 1.07831764F,
                  0.800800562F, 1.68062055F, 0.355859905F, -0.686622977F, -0.493356347F,
                  0.241487786F, -1.11090386F, 0.041759491F, -0.251575291F, 0.859858513F,
                  -0.309726775F, -0.395710498F, 0.803409338F, -0.621595383F, -0.592000544F));
  EXPECT_THAT(draw(g, 2), ElementsAre(0.18634358F, 1.62726021F));
}

TEST(TorchGenerator, ARestOfHalfTypesDrawsFewerWords) {
  TorchGenerator g(42);
  EXPECT_THAT(draw_bf16(g, 21),
              ElementsAre(1.9296875F, 1.484375F, 0.90234375F, -2.109375F, 0.6796875F, 1.640625F,
                          -0.159179688F, -0.498046875F, 0.439453125F, -0.7578125F, 1.078125F,
                          0.80078125F, 1.6796875F, 1.28125F, 1.296875F, 0.609375F, 1.3359375F,
                          -0.231445312F, 0.0417480469F, -0.251953125F, 0.859375F));
  EXPECT_THAT(draw_bf16(g, 2), ElementsAre(1.3203125F, 0.81640625F));
  TorchGenerator h(42);
  const std::vector<float> rest = draw_f16(h, 37);
  EXPECT_EQ(rest[20], -0.758300781F);
  EXPECT_EQ(rest[21], -1.38476562F);
  EXPECT_EQ(rest[36], -0.487792969F);
  EXPECT_THAT(draw_f16(h, 2), ElementsAre(0.281494141F, 0.0561523438F));
}

TEST(TorchGenerator, LongDrawsAgreeBitForBit) {
  TorchGenerator a(0);
  EXPECT_EQ(crc_f32(draw(a, 1U << 20U)), 0x4dc8be29U);
  EXPECT_THAT(draw(a, 1), ElementsAre(-0.15488828718662262F));
  TorchGenerator b((std::uint64_t{1} << 63U) + 12345);
  EXPECT_EQ(crc_f32(draw(b, 1'000'003)), 0x3e7f5e60U);
  EXPECT_THAT(draw(b, 1), ElementsAre(-0.030382977798581123F));
  TorchGenerator c(1);
  EXPECT_EQ(crc_f32(draw(c, 17)), 0x145a9b97U);
  TorchGenerator d(99);
  EXPECT_EQ(crc_bf16(draw_bf16(d, 1U << 20U)), 0x0287db4fU);
  EXPECT_THAT(draw_bf16(d, 1), ElementsAre(round_bf16(-0.4546678364276886F)));
}

// torch.cat([torch.randn(1 + i % 15, generator=g) for i in range(2000)])
TEST(TorchGenerator, ManyShortDrawsAgreeBitForBit) {
  TorchGenerator g(5);
  std::vector<float> all;
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::vector<float> part = draw(g, 1 + i % 15);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(crc_f32(all), 0x527010bdU);
}

TEST(TorchGenerator, AnEmptyDrawChangesNothing) {
  TorchGenerator a(1);
  TorchGenerator b(1);
  draw(a, 0);
  draw_bf16(a, 0);
  EXPECT_THAT(draw(a, 3), ElementsAreArray(draw(b, 3)));
}

}  // namespace
}  // namespace difflet
