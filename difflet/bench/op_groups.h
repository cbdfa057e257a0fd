// The steps of a run, summed by kernel.
#pragma once

#include <string>
#include <vector>

#include "difflet/runtime/executable.h"

namespace difflet::bench {

struct OpGroup {
  std::string kernel;
  int steps = 0;
  double seconds = 0, flops = 0, bytes = 0;  // of all its steps
};

// One group a kernel, the longest first; kernels of equal time by name.
std::vector<OpGroup> group_steps(const std::vector<runtime::StepTime>& steps);
// All steps as one group without a kernel.
OpGroup sum_steps(const std::vector<runtime::StepTime>& steps);

}  // namespace difflet::bench
