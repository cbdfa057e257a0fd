// Runs the program of one rank.
#pragma once

#include <vector>

#include "difflet/backends/reference/communicator.h"
#include "difflet/backends/reference/value.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::reference {

// A graph of primitives with its parameters and constants on one rank.
struct RankProgram {
  std::shared_ptr<const graph::Graph> graph;
  std::int64_t rank = 0;
  std::vector<HostTensor> params;   // views of the rank's packed weights, by Param::index
  std::vector<ValuePtr> constants;  // by node; null for others
  std::vector<graph::NodeId> last_use;
};

// Expands every composite of `graph`.
std::shared_ptr<const graph::Graph> prepare(const graph::Graph& graph);
// One piece a parameter: the rank's part in the dtype of the program.
std::vector<runtime::WeightPiece> pieces_of(const graph::Graph& prepared);
// Bytes of pieces, and of the Values that live at the same time at most.
runtime::MemoryReport planned_memory(const graph::Graph& prepared);
// `graph` as prepare() made it. Throws DataLoss when a piece is missing.
RankProgram load_rank(std::shared_ptr<const graph::Graph> graph,
                      const std::shared_ptr<const runtime::PackedWeights>& weights,
                      std::int64_t rank);
// Inputs and outputs in the order of the graph's. Errors are prefixed with the failing node's scope.
std::vector<HostTensor> evaluate(const RankProgram& program, Communicator& communicator,
                                 const std::vector<HostTensor>& inputs);

}  // namespace difflet::reference
