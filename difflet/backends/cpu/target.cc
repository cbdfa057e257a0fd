#include "difflet/backends/cpu/backend.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::cpu {

std::optional<graph::Refusal> CpuTarget::claims(const graph::Op& op,
                                                std::span<const graph::Type> operands) const {
  for (const graph::Type& t : operands) {
    if (t.dtype == DType::F16) {
      return graph::Refusal{fmt::format("{}: f16 is computed in f32", graph::op_name(op))};
    }
  }
  if (std::holds_alternative<graph::Attention>(op) &&
      operands[0].shape[3] != operands[2].shape[3]) {
    return graph::Refusal{fmt::format("attention: head dims of keys {} and values {} differ",
                                      operands[0].shape.str(), operands[2].shape.str())};
  }
  return std::nullopt;
}

std::vector<std::string> refusals(const graph::Graph& graph) {
  const CpuTarget target;
  std::vector<std::string> lines;
  for (const graph::Node& node : graph.nodes()) {
    if (!graph::is_composite(node.op)) {
      continue;
    }
    std::vector<graph::Type> operands;
    operands.reserve(node.inputs.size());
    for (const graph::NodeId input : node.inputs) {
      operands.push_back(graph.node(input).type);
    }
    if (const auto refusal = target.claims(node.op, operands)) {
      lines.push_back(fmt::format("expanded {} {}: {}", graph::op_name(node.op),
                                  graph.scope_name(node.scope), refusal->reason));
    }
  }
  return lines;
}

graph::Graph prepare(const graph::Graph& graph) {
  namespace passes = graph::passes;
  graph::Graph g = passes::simplify(graph);
  g = passes::merge_common(g);
  g = passes::fuse_norm(g);
  g = passes::fuse_linear(g);
  g = passes::expand_composites(g, CpuTarget());
  g = passes::simplify(g);
  g = passes::merge_common(g);
  return passes::eliminate_dead(g);
}

}  // namespace difflet::cpu
