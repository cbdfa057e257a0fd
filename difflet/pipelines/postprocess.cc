#include "difflet/pipelines/postprocess.h"

#include <algorithm>
#include <cmath>

#include "difflet/base/error.h"
#include "difflet/sampling/rounding.h"

namespace difflet::pipelines {
namespace {

std::uint8_t to_byte(float value, DType dtype) {
  const float half = sampling::rounded(value * 0.5F, dtype);
  const float unit = std::clamp(sampling::rounded(half + 0.5F, dtype), 0.0F, 1.0F);
  return static_cast<std::uint8_t>(std::nearbyint(unit * 255.0F));
}

}  // namespace

std::vector<io::Image> to_images(const HostTensor& sample) {
  const Shape& shape = sample.shape();
  require(shape.rank() == 4 && shape[1] == 3, "a decoded picture without three channels");
  const std::vector<float> values = sample.to_floats();
  const auto plane = static_cast<std::size_t>(shape[2] * shape[3]);
  std::vector<io::Image> images(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i] = {.width = shape[3], .height = shape[2], .rgb = {}};
    images[i].rgb.resize(plane * 3);
    for (std::size_t k = 0; k < plane * 3; ++k) {
      const std::size_t source = (i * 3 + k % 3) * plane + k / 3;
      images[i].rgb[k] = to_byte(values[source], sample.dtype());
    }
  }
  return images;
}

}  // namespace difflet::pipelines
