#include "difflet/bench/statistics.h"

#include <algorithm>

#include "difflet/base/error.h"

namespace difflet::bench {

double median(std::vector<double> samples) {
  check(!samples.empty(), ErrorCode::InvalidArgument, "no samples to summarize");
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

Summary summarize(const std::vector<double>& samples) {
  const double middle = median(samples);
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  return {middle, *low, *high};
}

}  // namespace difflet::bench
