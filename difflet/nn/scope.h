// Where a module declares its parameters: a graph, a path of checkpoint names, a dtype.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "difflet/ops/tensor.h"

namespace difflet::nn {

using ops::Tensor;

// Puts the graph's scope back when it goes out of scope.
class [[nodiscard]] EnteredScope {
 public:
  EnteredScope(graph::Graph& graph, std::string_view path)
      : graph_(&graph), previous_(graph.current_scope()) {
    graph.set_scope(path);
  }
  ~EnteredScope() { graph_->restore_scope(previous_); }
  EnteredScope(const EnteredScope&) = delete;
  EnteredScope& operator=(const EnteredScope&) = delete;

 private:
  graph::Graph* graph_;
  std::uint32_t previous_;
};

class Scope {
 public:
  // Parameters are read as `dtype`.
  Scope(graph::Graph& graph, DType dtype, std::string path = "")
      : graph_(&graph), dtype_(dtype), path_(std::move(path)) {}

  Scope operator/(std::string_view child) const {
    return {*graph_, dtype_, path_.empty() ? std::string(child) : path_ + "." + std::string(child)};
  }
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }

  // Declares `path.name`; aliases are other full names under which checkpoints keep it.
  Tensor param(std::string_view name, const Shape& shape, const graph::Placement& placement = {},
               std::vector<std::string> aliases = {}) const;
  // Nodes added while the result lives belong to this path.
  EnteredScope enter() const { return {*graph_, path_}; }

  graph::Graph& graph() const { return *graph_; }
  DType dtype() const { return dtype_; }
  const std::string& path() const { return path_; }
  // Ranks along a mesh axis.
  std::int64_t ranks(spmd::Axis axis) const { return graph_->mesh().size(axis); }

 private:
  graph::Graph* graph_;
  DType dtype_;
  std::string path_;
};

// One axis cut over the tensor-parallel ranks; each segment is cut on its own.
graph::Placement split(std::int64_t dim, std::vector<std::int64_t> segments = {});

}  // namespace difflet::nn
