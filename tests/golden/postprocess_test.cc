// Decoder output to 8-bit pixels as VaeImageProcessor does it; equal.
#include "difflet/pipelines/postprocess.h"

#include <string>
#include <vector>

#include "tests/golden/golden.h"

namespace difflet::pipelines {
namespace {

TEST(PostprocessGolden, PixelsAreEqual) {
  const auto path = golden::data("postprocess/to_uint8.safetensors");
  const auto file = io::SafetensorsFile::open(path);
  for (const std::string dtype : {"f32", "bf16"}) {
    std::vector<std::uint8_t> got;
    for (const io::Image& image : to_images(file.tensor(dtype + ".sample"))) {
      got.insert(got.end(), image.rgb.begin(), image.rgb.end());
    }
    EXPECT_EQ(got, golden::read_u8(path, dtype + ".pixels")) << dtype;
  }
}

}  // namespace
}  // namespace difflet::pipelines
