// Packs the weights of a plan from a checkpoint.
#pragma once

#include "difflet/backends/cpu/plan.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::cpu {

// Converts and packs what the sink wants, one parameter after another, each in parallel. Throws
// DataLoss naming the first tensor that holds NaN or Inf.
void pack_weights(const Plan& plan, const graph::Graph& graph, const runtime::WeightSource& source,
                  runtime::PieceSink& sink, ThreadPool& threads);

}  // namespace difflet::cpu
