// Questions that patterns ask of a graph.
#pragma once

#include <optional>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

// The value of a constant of one element.
std::optional<double> constant_scalar(const Graph& graph, NodeId id);

// The op of a node when it is an `O`, else null.
template <typename O>
const O* op_of(const Graph& graph, NodeId id) {
  return std::get_if<O>(&graph.node(id).op);
}

// The operands of a Binary of this kind when `id` is one.
std::optional<std::pair<NodeId, NodeId>> binary_operands(const Graph& graph, NodeId id,
                                                         BinaryKind kind);

}  // namespace difflet::graph::passes
