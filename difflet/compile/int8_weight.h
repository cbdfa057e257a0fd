// The arithmetic of int8 weights: one scale for each output row of a weight [N, K].
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "difflet/base/thread_pool.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::compile {

struct Int8Weight {
  HostTensor values;  // i8 [N, K], -127 ... 127
  HostTensor scale;   // f32 [N]
};

// w ~ values * scale: scale = largest magnitude of the row / 127 (1 for a row of zeros), values =
// w / scale to the nearest integer, ties to even. With `smooth` [K], not empty, w / smooth is
// quantised: x is multiplied with it. `w`: f32, f16 or bf16 [N, K]. Throws DataLoss, naming `name`, for
// NaN, Inf and what overflows; InvalidArgument when `smooth` has another length. Uses all threads, and
// must not be called from a task of the pool.
Int8Weight quantise_weight(std::string_view name, const HostTensor& w,
                           std::span<const float> smooth, ThreadPool& threads);
// The scales alone, the same numbers.
HostTensor weight_scales(std::string_view name, const HostTensor& w, std::span<const float> smooth,
                         ThreadPool& threads);

// What to multiply each column of x with so that its range and the weight's become alike (SmoothQuant
// with alpha 0.5): sqrt(largest |w| of the column / x_max), divided by the geometric mean of all. `x_max`
// [K]: largest magnitudes seen. A column that was hardly seen may be large in another run, so an x_max
// counts for a quarter of the median one at least, and no factor is over 4; a large one may be reduced to
// 1/32. All 1 where nothing was seen. Throws as quantise_weight(), and InvalidArgument for an x_max that
// is negative or not finite.
std::vector<float> smoothing(std::string_view name, std::span<const float> x_max,
                             const HostTensor& w, ThreadPool& threads);

}  // namespace difflet::compile
