#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "difflet/graph/passes/passes.h"
#include "difflet/graph/text.h"

namespace difflet::graph::passes {
namespace {

// Larger constants are not worth their comparison.
constexpr std::size_t kMaxConstantBytes = 1024;

bool may_merge(const Op& op) {
  if (const auto* constant = std::get_if<Constant>(&op)) {
    return constant->value.bytes().size() <= kMaxConstantBytes;
  }
  return !std::holds_alternative<Input>(op) && !std::holds_alternative<Param>(op);
}

}  // namespace

Graph merge_common(const Graph& graph) {
  std::map<std::string, NodeId> known;  // by op, attributes and operands
  return rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    const Op& op = graph.node(id).op;
    if (!may_merge(op)) {
      return copy_node(to, graph, id, inputs);
    }
    std::string key =
        fmt::format("{}({}){}", op_name(op), fmt::join(inputs, ","), print_attributes(op));
    if (const auto found = known.find(key); found != known.end()) {
      return found->second;
    }
    const NodeId copy = copy_node(to, graph, id, inputs);
    known.emplace(std::move(key), copy);
    return copy;
  });
}

}  // namespace difflet::graph::passes
