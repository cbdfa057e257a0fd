#include "difflet/bench/op_groups.h"

#include <algorithm>
#include <map>

namespace difflet::bench {
namespace {

void add(OpGroup& group, const runtime::StepTime& step) {
  group.steps += 1;
  group.seconds += step.seconds;
  group.flops += step.flops;
  group.bytes += step.bytes;
}

}  // namespace

std::vector<OpGroup> group_steps(const std::vector<runtime::StepTime>& steps) {
  std::map<std::string, OpGroup> by_kernel;
  for (const runtime::StepTime& step : steps) {
    OpGroup& group = by_kernel[step.kernel];
    group.kernel = step.kernel;
    add(group, step);
  }
  std::vector<OpGroup> groups;
  groups.reserve(by_kernel.size());
  for (auto& [kernel, group] : by_kernel) {
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const OpGroup& a, const OpGroup& b) { return a.seconds > b.seconds; });
  return groups;
}

OpGroup sum_steps(const std::vector<runtime::StepTime>& steps) {
  OpGroup sum;
  for (const runtime::StepTime& step : steps) {
    add(sum, step);
  }
  return sum;
}

}  // namespace difflet::bench
