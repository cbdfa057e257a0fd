// Summaries of repeated measurements.
#pragma once

#include <vector>

namespace difflet::bench {

struct Summary {
  double median = 0, minimum = 0, maximum = 0;
};

// All throw InvalidArgument for no samples.
double median(std::vector<double> samples);
Summary summarize(const std::vector<double>& samples);

}  // namespace difflet::bench
