#include "difflet/pipelines/latents.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace difflet::pipelines {
namespace {

constexpr LatentSize kSize{.n = 2, .channels = 3, .height = 4, .width = 6};

HostTensor numbered(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0F);
  return HostTensor::from(shape, values);
}

TEST(Latents, PackPutsTwoByTwoIntoAToken) {
  const HostTensor packed = pack_latents(numbered({2, 3, 4, 6}));
  EXPECT_EQ(packed.shape(), (Shape{2, 6, 12}));
  const std::vector<float> values = packed.to_floats();
  // Token 4 of picture 0 is at y 2, x 2: channel 1 begins at 24, rows are 6 long.
  const std::size_t token = 4 * 12;
  EXPECT_EQ(values[token + 4 + 0], 24 + 2 * 6 + 2);
  EXPECT_EQ(values[token + 4 + 1], 24 + 2 * 6 + 3);
  EXPECT_EQ(values[token + 4 + 2], 24 + 3 * 6 + 2);
  EXPECT_EQ(values[token + 4 + 3], 24 + 3 * 6 + 3);
}

TEST(Latents, UnpackUndoesPack) {
  const HostTensor latents = numbered({2, 3, 4, 6});
  EXPECT_EQ(unpack_latents(pack_latents(latents), kSize).to_floats(), latents.to_floats());
}

TEST(Latents, NoiseOfABatchIsOneDraw) {
  // The first picture of a batch starts as a picture alone does when its size is a multiple of 16.
  const LatentSize one{.n = 1, .channels = 4, .height = 4, .width = 4};
  const LatentSize two{.n = 2, .channels = 4, .height = 4, .width = 4};
  const auto alone = initial_latents(one, 7, DType::F32).to_floats();
  const auto batch = initial_latents(two, 7, DType::F32).to_floats();
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin()));
  EXPECT_EQ(initial_latents(one, 7, DType::BF16).to_floats(),
            initial_latents(one, 7, DType::F32).to(DType::BF16).to_floats());
}

TEST(Latents, PositionsAreRowAndColumnRounded) {
  const std::vector<float> ids = image_positions(kSize, DType::F32).to_floats();
  EXPECT_EQ(std::vector<float>(ids.begin() + 5 * 3, ids.end()), (std::vector<float>{0, 1, 2}));
  const LatentSize wide{.n = 1, .channels = 1, .height = 2, .width = 2 * 300};
  const std::vector<float> rounded = image_positions(wide, DType::BF16).to_floats();
  EXPECT_EQ(rounded[257 * 3 + 2], 256);  // bf16 has eight bits
}

TEST(Latents, UnscaleRoundsBetween) {
  const HostTensor x = HostTensor::from(Shape{1}, std::vector<float>{0.7F}).to(DType::BF16);
  const float quotient = round_bf16(x.to_floats()[0] / 0.3611F);
  EXPECT_EQ(unscale_latents(x, 0.3611, 0.1159).to_floats()[0], round_bf16(quotient + 0.1159F));
}

}  // namespace
}  // namespace difflet::pipelines
