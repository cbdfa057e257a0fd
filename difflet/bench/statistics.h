// Summaries of repeated measurements, and ratios with how sure they are.
#pragma once

#include <vector>

namespace difflet::bench {

struct Summary {
  double median = 0, minimum = 0, maximum = 0;
};

// All throw InvalidArgument for no samples.
double median(std::vector<double> samples);
Summary summarize(const std::vector<double>& samples);

// A ratio and the interval that holds it with 95 % confidence: percentiles of 2000 resamplings
// (bootstrap) by a generator of a fixed seed. With one sample the interval is the value.
struct Ratio {
  double value = 0, low = 0, high = 0;
};

// The median of numerator[i] / denominator[i], samples taken side by side. Throws InvalidArgument for
// lists of different length, empty ones, and denominators that are not positive.
Ratio paired_ratio(const std::vector<double>& numerator, const std::vector<double>& denominator);
// The ratio of two medians of samples that have nothing to do with each other; throws the same, but for
// the lengths.
Ratio median_ratio(const std::vector<double>& numerator, const std::vector<double>& denominator);

}  // namespace difflet::bench
