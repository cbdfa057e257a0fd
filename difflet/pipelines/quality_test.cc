#include "difflet/pipelines/quality.h"

#include <cmath>

#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

io::Image grey(std::uint8_t value) {
  return {.width = 2, .height = 1, .rgb = std::vector<std::uint8_t>(6, value)};
}

HostTensor numbers(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return HostTensor::from({size}, std::span<const float>(values));
}

TEST(Quality, PsnrIsAgainst255) {
  EXPECT_TRUE(std::isinf(picture_psnr(grey(7), grey(7))));
  EXPECT_NEAR(picture_psnr(grey(0), grey(255)), 0, 1e-12);
  EXPECT_NEAR(picture_psnr(grey(100), grey(101)), 20 * std::log10(255.0), 1e-9);
  io::Image wide = grey(1);
  wide.width = 1;
  wide.rgb.resize(3);
  EXPECT_ERROR(picture_psnr(wide, grey(1)), ErrorCode::InvalidArgument, "1 x 1 and 2 x 1");
}

TEST(Quality, ClosenessOfARequestAndOfAll) {
  const RequestResult a{.text = numbers({1, 0}), .latents = numbers({1, 1}), .pictures = {grey(9)}};
  const RequestResult b{.text = numbers({2, 0}), .latents = numbers({1, 0}), .pictures = {grey(8)}};
  const Closeness same = closeness(a, a);
  EXPECT_TRUE(std::isinf(same.psnr));
  const Closeness other = closeness(b, a);
  EXPECT_NEAR(other.text_cosine, 1, 1e-9);
  EXPECT_NEAR(other.latent_cosine, std::sqrt(0.5), 1e-6);
  const ClosenessSummary s = summarize(std::vector<Closeness>{same, other});
  EXPECT_NEAR(s.mean.psnr, (99 + other.psnr) / 2, 1e-9);
  EXPECT_EQ(s.least.psnr, other.psnr);
  EXPECT_NEAR(s.least.latent_cosine, std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(s.mean.latent_cosine, (1 + std::sqrt(0.5)) / 2, 1e-6);
}

}  // namespace
}  // namespace difflet::pipelines
