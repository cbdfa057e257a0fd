// Graph-to-graph passes; each lies in a file of its own and has a test in the graph's text form.
// split_bindings.h, batch_axis.h and extract.h declare those that take or give more than a graph.
#pragma once

#include "difflet/graph/graph.h"
#include "difflet/graph/target.h"

namespace difflet::graph::passes {

// Removes nodes that no output needs.
Graph eliminate_dead(const Graph& graph);
// One node for equal (op, operands).
Graph merge_common(const Graph& graph);
// Folds identities: reshape of reshape, convert to the same dtype, transpose pairs, slices of all,
// concat of one, x + 0 and x * 1 of scalar constants.
Graph simplify(const Graph& graph);
// Expands every composite (transitively) that `target` refuses.
Graph expand_composites(const Graph& graph, const Target& target);
// Pulls single-use activations, multiplications and additions into the Linear before them:
// act(linear), mul * linear, residual + linear (in this order; only when the operand types fit).
Graph fuse_linear(const Graph& graph);
// layer_norm(x) * (1 + scale) + shift -> modulated LayerNorm; activate(group_norm) -> GroupNorm with
// act; rope(rms_norm(x)) -> Rope with norm.
Graph fuse_norm(const Graph& graph);

}  // namespace difflet::graph::passes
