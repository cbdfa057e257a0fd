// From what a decoder returns to 8-bit pictures.
#pragma once

#include <vector>

#include "difflet/io/image.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::pipelines {

// sample [n, 3, height, width]: x / 2 + 1 / 2 clamped to [0, 1] in the sample's dtype, then times
// 255 in f32, halves rounded to even.
std::vector<io::Image> to_images(const HostTensor& sample);

}  // namespace difflet::pipelines
