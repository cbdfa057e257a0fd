#include "difflet/compile/int8_weight.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "difflet/base/error.h"

namespace difflet::compile {
namespace {

constexpr float kLargest = 127;
constexpr std::int64_t kTaskElements = 1 << 17;

// Bounds of smoothing (int8_weight.h): what calibration saw of a column, as a part of the typical one,
// and factors against their mean.
constexpr float kSeenAtLeast = 0.25F;
constexpr float kLeastFactor = 1.0F / 32;
constexpr float kLargestFactor = 4;

struct Matrix {
  const HostTensor* tensor = nullptr;
  std::int64_t rows = 0, columns = 0;
};

Matrix matrix_of(std::string_view name, const HostTensor& w) {
  check(w.shape().rank() == 2 && is_float(w.dtype()), ErrorCode::InvalidArgument,
        "tensor '{}' is {} {}, not a matrix of floats", name, dtype_name(w.dtype()),
        w.shape().str());
  return {&w, w.shape()[0], w.shape()[1]};
}

void check_length(std::string_view name, std::string_view what, std::size_t length,
                  const Matrix& m) {
  check(static_cast<std::int64_t>(length) == m.columns, ErrorCode::InvalidArgument,
        "tensor '{}' has {} columns, {} {} values", name, m.columns, what, length);
}

// Columns [first, first + out.size()) of row `n`, as floats.
void read_row(const Matrix& m, std::int64_t n, std::int64_t first, std::span<float> out) {
  const auto at = static_cast<std::size_t>(n * m.columns + first);
  switch (m.tensor->dtype()) {
    case DType::BF16: {
      const std::uint16_t* from = m.tensor->as<std::uint16_t>().data() + at;
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = bf16_to_f32(from[i]);
      }
      return;
    }
    case DType::F16: {
      const std::uint16_t* from = m.tensor->as<std::uint16_t>().data() + at;
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = f16_to_f32(from[i]);
      }
      return;
    }
    default:
      std::ranges::copy(m.tensor->as<float>().subspan(at, out.size()), out.begin());
  }
}

// The largest magnitude. Magnitudes are compared as bits, whose order is the same and puts Inf and NaN
// above every number.
float largest_magnitude(std::span<const float> values) {
  std::int32_t bits = 0;
  for (const float v : values) {
    bits = std::max(bits, std::bit_cast<std::int32_t>(v) & 0x7fffffff);
  }
  return std::bit_cast<float>(bits);
}

float scale_of(float largest) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  return largest == 0 ? 1.0F : std::max(largest / kLargest, kSmallest);
}

// values / scale to the nearest integers: adding 1.5 * 2^23 leaves them in the low bits of the sum,
// rounded to even as every sum is.
void quantise_row(std::span<const float> values, float scale, std::int8_t* out) {
  constexpr float kShift = 12582912.0F;
  constexpr std::int32_t kShiftBits = 0x4b400000;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float shifted = values[i] / scale + kShift;
    out[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(shifted) - kShiftBits);
  }
}

// [K] 1 / smooth, or nothing.
std::vector<float> inverse(std::span<const float> smooth) {
  std::vector<float> inverse(smooth.size());
  std::ranges::transform(smooth, inverse.begin(), [](float s) { return 1 / s; });
  return inverse;
}

// Calls row(n, values, largest) for each row of w / smooth, on all threads.
template <typename Row>
void for_rows(std::string_view name, const Matrix& m, std::span<const float> smooth,
              ThreadPool& threads, const Row& row) {
  if (!smooth.empty()) {
    check_length(name, "smoothing has", smooth.size(), m);
  }
  const std::vector<float> factors = inverse(smooth);
  const std::int64_t step =
      std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, m.columns));
  std::atomic<bool> finite{true};
  threads.run((m.rows + step - 1) / step, [&](std::int64_t task, int) {
    std::vector<float> values(static_cast<std::size_t>(m.columns));
    const std::int64_t end = std::min(m.rows, (task + 1) * step);
    for (std::int64_t n = task * step; n < end; ++n) {
      read_row(m, n, 0, values);
      for (std::size_t k = 0; k < factors.size(); ++k) {
        values[k] *= factors[k];
      }
      const float largest = largest_magnitude(values);
      if (!std::isfinite(largest)) {
        finite = false;
        return;
      }
      row(n, std::span<const float>(values), largest);
    }
  });
  check(finite, ErrorCode::DataLoss, "tensor '{}' holds NaN or Inf", name);
}

// [K] the largest magnitude of each column.
std::vector<float> largest_columns(std::string_view name, const Matrix& m, ThreadPool& threads) {
  constexpr std::int64_t kColumns = 1024;
  std::vector<float> largest(static_cast<std::size_t>(m.columns));
  threads.run((m.columns + kColumns - 1) / kColumns, [&](std::int64_t task, int) {
    const std::int64_t first = task * kColumns;
    const auto count = static_cast<std::size_t>(std::min(kColumns, m.columns - first));
    const std::span<float> mine =
        std::span(largest).subspan(static_cast<std::size_t>(first), count);
    std::vector<float> values(count);
    for (std::int64_t n = 0; n < m.rows; ++n) {
      read_row(m, n, first, values);
      for (std::size_t k = 0; k < count; ++k) {
        const float pair[] = {mine[k], values[k]};
        mine[k] = largest_magnitude(pair);
      }
    }
  });
  check(std::isfinite(largest_magnitude(largest)), ErrorCode::DataLoss,
        "tensor '{}' holds NaN or Inf", name);
  return largest;
}

// The median of those that are not 0; 0 without one.
float typical(std::span<const float> magnitudes) {
  std::vector<float> seen;
  std::ranges::copy_if(magnitudes, std::back_inserter(seen), [](float v) { return v > 0; });
  if (seen.empty()) {
    return 0;
  }
  const auto middle = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  std::ranges::nth_element(seen, middle);
  return *middle;
}

// exp of the mean logarithm of those that are not 0; 0 without one.
float geometric_mean(std::span<const float> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const float v : values) {
    sum += v > 0 ? std::log(static_cast<double>(v)) : 0;
    count += v > 0 ? 1 : 0;
  }
  return count == 0 ? 0.0F : static_cast<float>(std::exp(sum / static_cast<double>(count)));
}

}  // namespace

Int8Weight quantise_weight(std::string_view name, const HostTensor& w,
                           std::span<const float> smooth, ThreadPool& threads) {
  const Matrix m = matrix_of(name, w);
  Int8Weight result{.values = HostTensor(DType::I8, w.shape()),
                    .scale = HostTensor(DType::F32, Shape{m.rows})};
  std::int8_t* values = result.values.mutable_as<std::int8_t>().data();
  float* scale = result.scale.mutable_as<float>().data();
  for_rows(name, m, smooth, threads,
           [&](std::int64_t n, std::span<const float> row, float largest) {
             scale[n] = scale_of(largest);
             quantise_row(row, scale[n], values + n * m.columns);
           });
  return result;
}

HostTensor weight_scales(std::string_view name, const HostTensor& w, std::span<const float> smooth,
                         ThreadPool& threads) {
  const Matrix m = matrix_of(name, w);
  HostTensor result(DType::F32, Shape{m.rows});
  float* scale = result.mutable_as<float>().data();
  for_rows(name, m, smooth, threads,
           [&](std::int64_t n, std::span<const float> /*row*/, float largest) {
             scale[n] = scale_of(largest);
           });
  return result;
}

std::vector<float> smoothing(std::string_view name, std::span<const float> x_max,
                             const HostTensor& w, ThreadPool& threads) {
  const Matrix m = matrix_of(name, w);
  check_length(name, "its statistics have", x_max.size(), m);
  const std::vector<float> w_max = largest_columns(name, m, threads);
  for (std::size_t k = 0; k < x_max.size(); ++k) {
    check(std::isfinite(x_max[k]) && x_max[k] >= 0, ErrorCode::InvalidArgument,
          "the statistics of tensor '{}' hold {} for column {}", name, x_max[k], k);
  }
  const float floor = typical(x_max) * kSeenAtLeast;
  std::vector<float> smooth(x_max.size());
  for (std::size_t k = 0; k < smooth.size() && floor > 0; ++k) {
    smooth[k] = std::sqrt(w_max[k]) / std::sqrt(std::max(x_max[k], floor));
  }
  const float mean = geometric_mean(smooth);
  if (mean == 0) {
    std::ranges::fill(smooth, 1.0F);
    return smooth;
  }
  std::ranges::transform(smooth, smooth.begin(), [&](float s) {
    return std::clamp(s / mean, kLeastFactor, kLargestFactor);
  });
  return smooth;
}

}  // namespace difflet::compile
