// Steps of a run in the Chrome trace-event format, which chrome://tracing and Perfetto load.
#pragma once

#include <string>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/runtime/executable.h"

namespace difflet::bench {

// One program of a component and its steps; each has a row of its own in the trace.
struct TracedProgram {
  std::string component;  // "transformer": a process of the trace
  std::string program;    // "step": a thread of it
  std::vector<runtime::StepTime> steps;
};

// A complete event ("ph": "X") for every step, in microseconds; programs of one component follow one
// another in the order given. The arguments of an event are the op's place, its result's type, why its
// kernel was chosen, operations and bytes, all as far as the step tells them.
Json chrome_trace(const std::vector<TracedProgram>& programs);

}  // namespace difflet::bench
