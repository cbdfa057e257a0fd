// The judge of the demo checkpoint.
#include "difflet/pipelines/judge.h"

#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

TEST(Judge, OfTheDemo) {
  const std::filesystem::path file = std::filesystem::path(DIFFLET_SOURCE_DIR) / "demo/judge.png";
  const Judge judge = Judge::open(file);
  EXPECT_EQ(judge.questions().size(), 100U);
  // Each thumbnail is nearest to itself, also as the 64 x 64 picture that has it as its half.
  const io::Image all = io::read_png(file);
  const io::Image twice = box_resized(all, all.width * 2, all.height * 2);
  for (std::size_t i = 0; i < 400; i += 57) {
    io::Image one{.width = 64, .height = 64, .rgb = {}};
    for (std::size_t y = 0; y < 64; ++y) {
      const auto row = twice.rgb.begin() +
                       static_cast<std::ptrdiff_t>(((i / 20 * 64 + y) * 1280 + i % 20 * 64) * 3);
      one.rgb.insert(one.rgb.end(), row, row + static_cast<std::ptrdiff_t>(64 * 3));
    }
    EXPECT_EQ(judge.nearest(one), i);
  }
}

}  // namespace
}  // namespace difflet::pipelines
