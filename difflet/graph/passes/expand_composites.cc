#include "difflet/graph/decompose.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {

Graph expand_composites(const Graph& graph, const Target& target) {
  return rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    const Op& op = graph.node(id).op;
    if (!is_composite(op)) {
      return copy_node(to, graph, id, inputs);
    }
    std::vector<Type> operands;
    operands.reserve(inputs.size());
    for (const NodeId input : inputs) {
      operands.push_back(to.node(input).type);
    }
    return target.claims(op, operands) ? decompose(to, op, inputs)
                                       : copy_node(to, graph, id, inputs);
  });
}

}  // namespace difflet::graph::passes
