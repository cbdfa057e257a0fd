#include <set>

#include "difflet/base/error.h"
#include "difflet/graph/graph.h"

namespace difflet::graph {
namespace {

void verify_node(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes()[id];
  std::vector<Type> operands;
  operands.reserve(node.inputs.size());
  for (const NodeId input : node.inputs) {
    check(input < id, ErrorCode::InvalidArgument, "%{} = {}: operand %{} comes later", id,
          op_name(node.op), input);
    operands.push_back(graph.nodes()[input].type);
  }
  const Type type = infer(node.op, operands, graph);
  check(type == node.type, ErrorCode::InvalidArgument, "%{} = {}: the type is {}, not {}", id,
        op_name(node.op), type.str(), node.type.str());
}

}  // namespace

void verify(const Graph& graph) {
  std::set<std::string_view> input_names;
  std::vector<int> declared(graph.params().size(), 0);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    verify_node(graph, static_cast<NodeId>(i));
    const Op& op = graph.nodes()[i].op;
    if (const auto* input = std::get_if<Input>(&op)) {
      check(input_names.insert(input->name).second, ErrorCode::InvalidArgument,
            "input '{}' is declared twice", input->name);
    } else if (const auto* param = std::get_if<Param>(&op)) {
      ++declared[static_cast<std::size_t>(param->index)];
    }
  }
  for (std::size_t i = 0; i < declared.size(); ++i) {
    check(declared[i] == 1, ErrorCode::InvalidArgument, "param '{}' has {} nodes, not 1",
          graph.params()[i].name, declared[i]);
  }
  for (const Output& output : graph.outputs()) {
    check(output.node < graph.nodes().size(), ErrorCode::InvalidArgument,
          "output '{}': %{} is not defined", output.name, output.node);
  }
}

}  // namespace difflet::graph
