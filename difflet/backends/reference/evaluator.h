// Runs the program of one rank.
#pragma once

#include <vector>

#include "difflet/backends/reference/communicator.h"
#include "difflet/backends/reference/value.h"
#include "difflet/runtime/executable.h"

namespace difflet::reference {

// A graph of primitives with the values of its parameters and constants on one rank.
struct RankProgram {
  std::shared_ptr<const graph::Graph> graph;
  std::int64_t rank = 0;
  std::vector<ValuePtr> fixed;  // by node; null for what is computed
  std::vector<graph::NodeId> last_use;
};

// Expands every composite of `graph`.
std::shared_ptr<const graph::Graph> prepare(const graph::Graph& graph);
// Bytes of parameters, and of what is computed and lives at the same time at most, as Values.
runtime::MemoryReport planned_memory(const graph::Graph& prepared);
// `graph` as prepare() made it.
RankProgram load_rank(std::shared_ptr<const graph::Graph> graph,
                      const runtime::WeightSource& weights, std::int64_t rank);
// Inputs and outputs in the order of the graph's. Errors are prefixed with the failing node's scope.
std::vector<HostTensor> evaluate(const RankProgram& program, Communicator& communicator,
                                 const std::vector<HostTensor>& inputs);

}  // namespace difflet::reference
