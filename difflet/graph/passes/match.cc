#include "difflet/graph/passes/match.h"

namespace difflet::graph::passes {

std::optional<double> constant_scalar(const Graph& graph, NodeId id) {
  const auto* constant = op_of<Constant>(graph, id);
  if (constant == nullptr || constant->value.shape().elements() != 1) {
    return std::nullopt;
  }
  if (constant->value.dtype() == DType::I64) {
    return static_cast<double>(constant->value.as<std::int64_t>()[0]);
  }
  if (constant->value.dtype() == DType::I32) {
    return static_cast<double>(constant->value.as<std::int32_t>()[0]);
  }
  return static_cast<double>(constant->value.to_floats()[0]);
}

std::optional<std::pair<NodeId, NodeId>> binary_operands(const Graph& graph, NodeId id,
                                                         BinaryKind kind) {
  const auto* binary = op_of<Binary>(graph, id);
  if (binary == nullptr || binary->kind != kind) {
    return std::nullopt;
  }
  const std::vector<NodeId>& inputs = graph.node(id).inputs;
  return std::pair{inputs[0], inputs[1]};
}

}  // namespace difflet::graph::passes
