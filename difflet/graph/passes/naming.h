// Readable names for values of a graph: what passes call the inputs and outputs that they make.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

// Param, Constant, RankIndex or Iota: costs nothing to have in several programs.
bool is_leaf(const Op& op) noexcept;

// What a reader of the text form calls the op: "linear", "add", "cos".
std::string_view label(const Op& op) noexcept;
// The module path of the node's first parameter ("context_embedder"), else its scope.
std::string module_of(const Graph& graph, NodeId id);
// "context_embedder" for a node with parameters, else scope and label: "transformer_blocks.0.add".
std::string stem(const Graph& graph, NodeId id);

// Hands out "stem.0", "stem.1" ..., leaving out what is taken.
class UniqueNames {
 public:
  void take(std::string name) { taken_.insert(std::move(name)); }
  std::string next(const std::string& stem);

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int, std::less<>> index_;
};

}  // namespace difflet::graph::passes
