// What a program costs to run once: arithmetic and weights.
#pragma once

#include <cstddef>

#include "difflet/graph/graph.h"

namespace difflet::graph {

// Floating-point operations of one node on this rank. Products count 2 a multiply-add: Linear, MatMul,
// Conv2d, Attention (scores and values; a causal or bounded one counts every key). Elementwise ops count
// 1 an element of the result, Reduce and ArgMax 1 an element of the operand, Activate, norms and Softmax
// 8 an element (GroupStatistics, and GroupNorm with given ones, 4), Rope 3 (11 with its norm). Leaves, shape ops, Gather and collectives count 0.
double flops(const Graph& graph, NodeId id);
// Of all nodes.
double flops(const Graph& graph);

// Bytes of this rank's part of every parameter, as the program reads it; each counts once.
std::size_t weight_bytes(const Graph& graph);
// Of one parameter.
std::size_t weight_bytes(const ParamDecl& param, const spmd::Mesh& mesh);

}  // namespace difflet::graph
