#include "difflet/pipelines/postprocess.h"

#include <algorithm>
#include <cmath>
#include <memory>

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
  const auto width = static_cast<std::size_t>(shape[3]);
  const auto rows = static_cast<std::size_t>(shape[2]);
  const std::size_t row_bytes = width * dtype_bytes(sample.dtype());
  const auto owner = std::make_shared<HostTensor>(sample);
  std::vector<io::Image> images(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i] = {.width = shape[3], .height = shape[2], .rgb = {}};
    images[i].rgb.resize(rows * width * 3);
    // A row at a time: f32 of the whole picture is four times its bytes.
    for (std::size_t row = 0; row < 3 * rows; ++row) {
      const std::size_t colour = row / rows;
      const HostTensor part(sample.dtype(), {shape[3]},
                            sample.bytes().subspan((i * 3 * rows + row) * row_bytes, row_bytes),
                            owner);
      const std::vector<float> values = part.to_floats();
      std::uint8_t* out = images[i].rgb.data() + row % rows * width * 3 + colour;
      for (std::size_t x = 0; x < width; ++x) {
        out[x * 3] = to_byte(values[x], sample.dtype());
      }
    }
  }
  return images;
}

}  // namespace difflet::pipelines
