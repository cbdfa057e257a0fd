// A static, acyclic program over tensors: the per-rank program of one model component.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/graph/op.h"
#include "difflet/spmd/mesh.h"

namespace difflet::graph {

using NodeId = std::uint32_t;

struct Type {
  DType dtype = DType::F32;
  Shape shape;
  std::string str() const;  // "bf16[2, 3]"
  bool operator==(const Type&) const noexcept = default;
};

// How a parameter is cut over the mesh: whole on every rank, or axis `dim` split over `mesh_axis`.
// `segments` are extents that sum to that axis, each split on its own (fused or concatenated weights).
struct Placement {
  bool split = false;
  std::int64_t dim = 0;
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  Dims segments;
  bool operator==(const Placement&) const = default;
};

struct ParamDecl {
  std::string name;                  // in the checkpoint
  std::vector<std::string> aliases;  // other names that checkpoints use
  DType dtype = DType::F32;          // as the program reads it
  Shape shape;                       // whole, as in the checkpoint
  Placement placement;
};

// The shape on one rank. Throws InvalidArgument, naming the parameter, when a segment does not divide.
Shape local_shape(const ParamDecl& param, const spmd::Mesh& mesh);
// This rank's part of the whole tensor (a copy when split).
HostTensor local_shard(const ParamDecl& param, const spmd::Mesh& mesh, std::int64_t rank,
                       const HostTensor& whole);

struct Node {
  Op op;
  std::vector<NodeId> inputs;
  Type type;
  std::uint32_t scope = 0;  // Graph::scope_name
};

struct Output {
  std::string name;
  NodeId node = 0;
};

class Graph {
 public:
  explicit Graph(std::string name = "", const spmd::Mesh& mesh = {});

  const std::string& name() const noexcept { return name_; }
  const spmd::Mesh& mesh() const noexcept { return mesh_; }
  std::span<const Node> nodes() const noexcept { return nodes_; }
  const Node& node(NodeId id) const { return nodes_.at(id); }
  std::span<const ParamDecl> params() const noexcept { return params_; }
  std::span<const Output> outputs() const noexcept { return outputs_; }
  std::vector<NodeId> inputs() const;  // Input nodes in order of declaration
  std::string_view scope_name(std::uint32_t scope) const { return scopes_.at(scope); }

  // Infers the type; an error is prefixed with the scope and shows all operand types.
  NodeId add(Op op, std::vector<NodeId> inputs);
  // Declares a parameter (once a name: the same declaration again returns the same node).
  NodeId add_param(ParamDecl param);
  void add_output(std::string name, NodeId node);

  // The module path that nodes added from now on belong to ("transformer_blocks.0.attn"). Returns the
  // scope before the call, for restore_scope().
  std::uint32_t set_scope(std::string_view path);
  void restore_scope(std::uint32_t scope) noexcept { scope_ = scope; }
  std::uint32_t current_scope() const noexcept { return scope_; }

 private:
  std::string name_;
  spmd::Mesh mesh_;
  std::vector<Node> nodes_;
  std::vector<ParamDecl> params_;
  std::vector<NodeId> param_nodes_;
  std::vector<Output> outputs_;
  std::vector<std::string> scopes_{""};
  std::map<std::string, std::uint32_t, std::less<>> scope_ids_{{"", 0}};
  std::map<std::string, std::size_t, std::less<>> param_ids_;
  std::uint32_t scope_ = 0;
};

// Number of uses of each node, outputs included.
std::vector<std::uint32_t> use_counts(const Graph& graph);

// Result type of an op; throws InvalidArgument with every operand's type.
Type infer(const Op& op, std::span<const Type> operands, const Graph& graph);

// Checks a graph made by hand or by a parser: operand order, arity, inferred types, outputs, params.
void verify(const Graph& graph);

// Text form, one node a line; parse(print(g)) prints the same text. Throws InvalidArgument with line.
std::string print(const Graph& graph);
Graph parse(std::string_view text);

// Rebuilds `from`: for each live node in order, `emit(to, id, inputs)` returns the node of `to` that
// stands for it (`inputs` are its operands there; copy_node() keeps it as it is). Parameters, outputs
// and scopes carry over; dead nodes and parameters nobody reads do not. The base of every pass.
using Emit = std::function<NodeId(Graph& to, NodeId id, std::span<const NodeId> inputs)>;
Graph rewrite(const Graph& from, const Emit& emit);
NodeId copy_node(Graph& to, const Graph& from, NodeId id, std::span<const NodeId> inputs);

}  // namespace difflet::graph
