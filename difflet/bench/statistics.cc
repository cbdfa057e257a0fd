#include "difflet/bench/statistics.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

constexpr std::size_t kResamplings = 2000;
constexpr double kTail = 0.025;

// xorshift64*: the same numbers on every machine.
class Dice {
 public:
  std::size_t below(std::size_t count) {
    state_ ^= state_ >> 12U;
    state_ ^= state_ << 25U;
    state_ ^= state_ >> 27U;
    return static_cast<std::size_t>((state_ * 0x2545f4914f6cdd1dU) >> 33U) % count;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15U;
};

std::vector<double> resampled(const std::vector<double>& samples, Dice& dice) {
  std::vector<double> out(samples.size());
  for (double& v : out) {
    v = samples[dice.below(samples.size())];
  }
  return out;
}

Ratio with_interval(double value, std::vector<double> resamplings) {
  std::sort(resamplings.begin(), resamplings.end());
  const auto at = [&](double share) {
    return resamplings[static_cast<std::size_t>(share *
                                                static_cast<double>(resamplings.size() - 1))];
  };
  return {value, at(kTail), at(1 - kTail)};
}

void check_positive(const std::vector<double>& samples) {
  check(std::all_of(samples.begin(), samples.end(), [](double v) { return v > 0; }),
        ErrorCode::InvalidArgument, "a sample that is not positive");
}

}  // namespace

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

Ratio paired_ratio(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  check(numerator.size() == denominator.size(), ErrorCode::InvalidArgument,
        "{} and {} samples are no pairs", numerator.size(), denominator.size());
  check_positive(denominator);
  std::vector<double> ratios(numerator.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] = numerator[i] / denominator[i];
  }
  const double value = median(ratios);
  Dice dice;
  std::vector<double> resamplings(kResamplings);
  for (double& r : resamplings) {
    r = median(resampled(ratios, dice));
  }
  return with_interval(value, std::move(resamplings));
}

Ratio median_ratio(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  check_positive(denominator);
  const double value = median(numerator) / median(denominator);
  Dice dice;
  std::vector<double> resamplings(kResamplings);
  for (double& r : resamplings) {
    const double above = median(resampled(numerator, dice));
    r = above / median(resampled(denominator, dice));
  }
  return with_interval(value, std::move(resamplings));
}

}  // namespace difflet::bench
