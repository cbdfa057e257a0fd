#include "difflet/base/error.h"
#include "difflet/graph/graph.h"

namespace difflet::graph {
namespace {

// Nodes that an output needs, and every input: the calling convention never changes.
std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (const Output& output : graph.outputs()) {
    live[output.node] = true;
  }
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (std::holds_alternative<Input>(node.op)) {
      live[i] = true;
    }
    if (live[i]) {
      for (const NodeId input : node.inputs) {
        live[input] = true;
      }
    }
  }
  return live;
}

}  // namespace

NodeId copy_node(Graph& to, const Graph& from, NodeId id, std::span<const NodeId> inputs) {
  const Node& node = from.node(id);
  if (const auto* param = std::get_if<Param>(&node.op)) {
    return to.add_param(from.params()[static_cast<std::size_t>(param->index)]);
  }
  return to.add(node.op, {inputs.begin(), inputs.end()});
}

Graph rewrite(const Graph& from, const Emit& emit) {
  Graph to(from.name(), from.mesh());
  const std::vector<bool> live = live_nodes(from);
  std::vector<NodeId> map(from.nodes().size(), 0);
  std::vector<NodeId> inputs;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (!live[i]) {
      continue;
    }
    const Node& node = from.nodes()[i];
    inputs.clear();
    for (const NodeId input : node.inputs) {
      inputs.push_back(map[input]);
    }
    to.set_scope(from.scope_name(node.scope));
    map[i] = emit(to, static_cast<NodeId>(i), inputs);
    // Not check(): the types' text would be made for every node.
    if (to.node(map[i]).type != node.type) {
      fail(ErrorCode::Internal, "rewrite: %{} {} became %{} {}", i, node.type.str(), map[i],
           to.node(map[i]).type.str());
    }
  }
  to.restore_scope(0);
  for (const Output& output : from.outputs()) {
    to.add_output(output.name, map[output.node]);
  }
  return to;
}

}  // namespace difflet::graph
