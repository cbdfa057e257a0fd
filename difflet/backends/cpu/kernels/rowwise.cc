#include "difflet/backends/cpu/kernels/rowwise.h"

#include <cmath>

#include "difflet/backends/cpu/kernels/rowwise_tables.h"

namespace difflet::cpu {

void group_norm_finish(const GroupNormArgs& a, const double* sums, float* mean_rstd) noexcept {
  const std::int64_t per_group = a.channels / a.groups;
  const auto n = static_cast<double>(a.pixels * per_group);
  for (std::int64_t g = 0; g < a.groups; ++g) {
    const double mean = sums[2 * g] / n;
    const double square = sums[2 * g + 1] / n - mean * mean;
    const double variance = square < 0 ? 0 : square;  // rounding only; a NaN stays one
    mean_rstd[2 * g] = static_cast<float>(mean);
    mean_rstd[2 * g + 1] = static_cast<float>(1 / std::sqrt(variance + static_cast<double>(a.eps)));
  }
}

const RowwiseKernels& rowwise_kernels(Level level) noexcept {
#if defined(__x86_64__)
  switch (level) {
    case Level::Scalar:
      return kRowwiseScalar;
    case Level::Avx2:
      return kRowwiseAvx2;
    case Level::Avx512:
    case Level::Avx512Vnni:  // bytes only multiply
      return kRowwiseAvx512;
    case Level::Avx512Bf16:
    case Level::Amx:  // tiles only multiply
      return kRowwiseAvx512Bf16;
  }
#else
  static_cast<void>(level);
#endif
  return kRowwiseScalar;
}

}  // namespace difflet::cpu
