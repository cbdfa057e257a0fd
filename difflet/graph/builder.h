// Adds primitive nodes in few words; what expansions are written with.
#pragma once

#include "difflet/graph/graph.h"

namespace difflet::graph {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() const noexcept { return graph_; }
  const Shape& shape(NodeId x) const { return graph_.node(x).type.shape; }
  DType dtype(NodeId x) const { return graph_.node(x).type.dtype; }

  // A scalar constant of any dtype.
  NodeId scalar(DType dtype, double value);
  NodeId f32(double value) { return scalar(DType::F32, value); }
  NodeId iota(DType dtype, const Shape& shape, std::int64_t axis);
  NodeId convert(NodeId x, DType dtype);  // x itself when it has the dtype
  NodeId unary(UnaryKind kind, NodeId x);
  NodeId binary(BinaryKind kind, NodeId a, NodeId b);
  NodeId add(NodeId a, NodeId b) { return binary(BinaryKind::Add, a, b); }
  NodeId sub(NodeId a, NodeId b) { return binary(BinaryKind::Sub, a, b); }
  NodeId mul(NodeId a, NodeId b) { return binary(BinaryKind::Mul, a, b); }
  NodeId div(NodeId a, NodeId b) { return binary(BinaryKind::Div, a, b); }
  NodeId compare(CompareKind kind, NodeId a, NodeId b);
  NodeId select(NodeId condition, NodeId a, NodeId b);
  NodeId reshape(NodeId x, const Shape& shape);
  NodeId transpose(NodeId x, Dims permutation);
  NodeId broadcast(NodeId x, const Shape& shape);
  NodeId slice(NodeId x, std::size_t axis, std::int64_t start, std::int64_t limit);
  NodeId concat(std::vector<NodeId> parts, std::size_t axis);
  NodeId reduce(ReduceKind kind, NodeId x, Dims axes);
  NodeId matmul(NodeId a, NodeId b);

 private:
  Graph& graph_;
};

// A tensor of one element.
HostTensor scalar_tensor(DType dtype, double value);

}  // namespace difflet::graph
