#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {

Graph eliminate_dead(const Graph& graph) {
  return rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    return copy_node(to, graph, id, inputs);
  });
}

}  // namespace difflet::graph::passes
