// Fills the weight region of a plan from a checkpoint.
#pragma once

#include <cstddef>

#include "difflet/backends/cpu/plan.h"
#include "difflet/runtime/executable.h"

namespace difflet::cpu {

// Converts and packs every parameter, in parallel. Throws DataLoss naming the first tensor that
// holds NaN or Inf.
void load_weights(const Plan& plan, const graph::Graph& graph, const runtime::WeightSource& source,
                  std::byte* region, ThreadPool& threads);

}  // namespace difflet::cpu
