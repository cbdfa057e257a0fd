// Results as tables of at most 100 columns.
#pragma once

#include <string>
#include <vector>

#include "difflet/bench/result.h"

namespace difflet::bench {

// One scenario: times, ratios, memory, outputs; then where the rest of the time goes.
std::string point_report(const PointEntry& point);
// Points of one sweep in their order: the cost of a unit (a token, a picture, a thread) at each.
std::string sweep_report(const std::vector<PointEntry>& points);

// "1.02 s", "21.3 ms": three digits.
std::string short_seconds(double seconds);

}  // namespace difflet::bench
