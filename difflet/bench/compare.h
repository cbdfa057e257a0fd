// Two results side by side.
#pragma once

#include <string>
#include <vector>

#include "difflet/bench/result.h"

namespace difflet::bench {

struct Change {
  std::string scenario;  // with its sweep's value
  std::int64_t threads = 1;
  std::string engine, metric;    // "main wall", "main cpu", "peak"
  double before = 0, after = 0;  // medians: seconds, or bytes
  Ratio ratio;                   // after / before
  bool is_regression(double bound) const { return ratio.low > 1 + bound; }
};

struct Comparison {
  std::vector<Change> changes;
  std::vector<std::string> notes;  // what is not compared and why; another machine
};

// Of every scenario and engine that both have. Throws InvalidArgument when a scenario of one name is not
// the same measurement in both, or nothing is in both.
Comparison compare_results(const ResultFile& before, const ResultFile& after);
std::string comparison_report(const Comparison& comparison, double bound);

}  // namespace difflet::bench
