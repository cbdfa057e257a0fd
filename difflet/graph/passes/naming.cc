#include "difflet/graph/passes/naming.h"

#include <fmt/format.h>

#include "difflet/graph/enum_names.h"
#include "difflet/graph/passes/match.h"

namespace difflet::graph::passes {
namespace {

// "context_embedder" of "context_embedder.weight"; empty when no operand is a parameter of a module.
std::string module_of_params(const Graph& graph, NodeId id) {
  for (const NodeId operand : graph.node(id).inputs) {
    if (const auto* param = op_of<Param>(graph, operand)) {
      const std::string& name = graph.params()[static_cast<std::size_t>(param->index)].name;
      if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) {
        return name.substr(0, dot);
      }
    }
  }
  return "";
}

}  // namespace

bool is_leaf(const Op& op) noexcept {
  return std::holds_alternative<Param>(op) || std::holds_alternative<Constant>(op) ||
         std::holds_alternative<RankIndex>(op) || std::holds_alternative<Iota>(op);
}

std::string_view label(const Op& op) noexcept {
  if (const auto* unary = std::get_if<Unary>(&op)) {
    return enum_name(unary->kind);
  }
  const auto* binary = std::get_if<Binary>(&op);
  return binary != nullptr ? enum_name(binary->kind) : op_name(op);
}

std::string module_of(const Graph& graph, NodeId id) {
  std::string module = module_of_params(graph, id);
  return module.empty() ? std::string(graph.scope_name(graph.node(id).scope)) : module;
}

std::string stem(const Graph& graph, NodeId id) {
  std::string module = module_of_params(graph, id);
  if (!module.empty()) {
    return module;
  }
  const std::string_view scope = graph.scope_name(graph.node(id).scope);
  return fmt::format("{}{}{}", scope, scope.empty() ? "" : ".", label(graph.node(id).op));
}

std::string UniqueNames::next(const std::string& stem) {
  int& index = index_[stem];
  std::string name;
  do {
    name = fmt::format("{}.{}", stem, index++);
  } while (!taken_.insert(name).second);
  return name;
}

}  // namespace difflet::graph::passes
