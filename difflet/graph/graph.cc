#include "difflet/graph/graph.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "difflet/base/error.h"

namespace difflet::graph {
namespace {

Dims segments_of(const ParamDecl& param) {
  if (!param.placement.segments.empty()) {
    return param.placement.segments;
  }
  return {param.shape[static_cast<std::size_t>(param.placement.dim)]};
}

// Throws InvalidArgument unless the placement describes a cut of the whole shape into equal parts.
void check_placement(const ParamDecl& param, const spmd::Mesh& mesh) {
  const Placement& p = param.placement;
  const auto rank = static_cast<std::int64_t>(param.shape.rank());
  check(p.dim >= 0 && p.dim < rank, ErrorCode::InvalidArgument,
        "param '{}': split axis {} is not an axis of {}", param.name, p.dim, param.shape.str());
  const std::int64_t extent = param.shape[static_cast<std::size_t>(p.dim)];
  const std::int64_t parts = mesh.size(p.mesh_axis);
  std::int64_t rest = extent;
  bool positive = true;
  for (const std::int64_t segment : segments_of(param)) {
    positive = positive && segment > 0 && segment <= rest;
    rest -= positive ? segment : 0;
  }
  check(positive && rest == 0, ErrorCode::InvalidArgument,
        "param '{}': segments {} do not sum to axis {} of {}", param.name,
        fmt::join(p.segments, ", "), p.dim, param.shape.str());
  for (const std::int64_t segment : segments_of(param)) {
    check(segment % parts == 0, ErrorCode::InvalidArgument,
          "param '{}': {} of axis {} of {} does not divide by {}={}", param.name, segment, p.dim,
          param.shape.str(), spmd::axis_name(p.mesh_axis), parts);
  }
}

bool same_declaration(const ParamDecl& a, const ParamDecl& b) {
  return a.name == b.name && a.aliases == b.aliases && a.dtype == b.dtype && a.shape == b.shape &&
         a.placement == b.placement;
}

// Joins tensors of equal shape except along `axis`.
HostTensor join(const std::vector<HostTensor>& parts, std::size_t axis) {
  std::int64_t extent = 0;
  for (const HostTensor& part : parts) {
    extent += part.shape()[axis];
  }
  HostTensor out(parts.front().dtype(), parts.front().shape().with(axis, extent));
  std::size_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) {
    rows *= static_cast<std::size_t>(out.shape()[i]);
  }
  const auto to = out.mutable_bytes();
  const std::size_t stride = to.size() / rows;
  std::size_t offset = 0;
  for (const HostTensor& part : parts) {
    const auto from = part.bytes();
    const std::size_t run = from.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(from.data() + row * run, run, to.data() + row * stride + offset);
    }
    offset += run;
  }
  return out;
}

}  // namespace

std::string Type::str() const { return fmt::format("{}{}", dtype_name(dtype), shape.str()); }

Shape local_shape(const ParamDecl& param, const spmd::Mesh& mesh) {
  if (!param.placement.split) {
    return param.shape;
  }
  check_placement(param, mesh);
  const auto dim = static_cast<std::size_t>(param.placement.dim);
  return param.shape.with(dim, param.shape[dim] / mesh.size(param.placement.mesh_axis));
}

HostTensor local_shard(const ParamDecl& param, const spmd::Mesh& mesh, std::int64_t rank,
                       const HostTensor& whole) {
  check(whole.shape() == param.shape, ErrorCode::InvalidArgument,
        "param '{}': the tensor has shape {}, not {}", param.name, whole.shape().str(),
        param.shape.str());
  const std::int64_t parts = mesh.size(param.placement.mesh_axis);
  if (!param.placement.split || parts == 1) {
    return whole;
  }
  check_placement(param, mesh);
  const auto dim = static_cast<std::size_t>(param.placement.dim);
  const std::int64_t index = mesh.coordinate(rank, param.placement.mesh_axis);
  std::vector<HostTensor> pieces;
  std::int64_t offset = 0;
  for (const std::int64_t segment : segments_of(param)) {
    const std::int64_t extent = segment / parts;
    pieces.push_back(whole.narrow(dim, offset + index * extent, extent));
    offset += segment;
  }
  return pieces.size() == 1 ? pieces.front() : join(pieces, dim);
}

Graph::Graph(std::string name, const spmd::Mesh& mesh) : name_(std::move(name)), mesh_(mesh) {}

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> ids;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (std::holds_alternative<Input>(nodes_[i].op)) {
      ids.push_back(static_cast<NodeId>(i));
    }
  }
  return ids;
}

NodeId Graph::add(Op op, std::vector<NodeId> inputs) {
  try {
    check(nodes_.size() < std::numeric_limits<NodeId>::max(), ErrorCode::ResourceExhausted,
          "graph '{}' has too many nodes", name_);
    std::vector<Type> operands;
    operands.reserve(inputs.size());
    for (const NodeId id : inputs) {
      check(id < nodes_.size(), ErrorCode::InvalidArgument, "{}: operand %{} is not defined",
            op_name(op), id);
      operands.push_back(nodes_[id].type);
    }
    Type type = infer(op, operands, *this);
    nodes_.push_back({std::move(op), std::move(inputs), type, scope_});
  } catch (Error& e) {
    if (!scopes_[scope_].empty()) {
      e.add_context(scopes_[scope_]);
    }
    throw;
  }
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Graph::add_param(ParamDecl param) {
  if (const auto found = param_ids_.find(param.name); found != param_ids_.end()) {
    check(same_declaration(params_[found->second], param), ErrorCode::InvalidArgument,
          "param '{}' is declared twice, as {}{} and {}{} or with other placements", param.name,
          dtype_name(params_[found->second].dtype), params_[found->second].shape.str(),
          dtype_name(param.dtype), param.shape.str());
    return param_nodes_[found->second];
  }
  const std::size_t index = params_.size();
  params_.push_back(std::move(param));
  try {
    param_nodes_.push_back(add(Param{static_cast<std::int64_t>(index)}, {}));
  } catch (...) {
    params_.pop_back();
    throw;
  }
  param_ids_.emplace(params_.back().name, index);
  return param_nodes_.back();
}

void Graph::add_output(std::string name, NodeId node) {
  check(node < nodes_.size(), ErrorCode::InvalidArgument, "output '{}': %{} is not defined", name,
        node);
  for (const Output& output : outputs_) {
    check(output.name != name, ErrorCode::InvalidArgument, "output '{}' is declared twice", name);
  }
  outputs_.push_back({std::move(name), node});
}

std::uint32_t Graph::set_scope(std::string_view path) {
  const std::uint32_t before = scope_;
  if (const auto found = scope_ids_.find(path); found != scope_ids_.end()) {
    scope_ = found->second;
    return before;
  }
  scopes_.emplace_back(path);
  scope_ = static_cast<std::uint32_t>(scopes_.size() - 1);
  scope_ids_.emplace(scopes_.back(), scope_);
  return before;
}

std::vector<std::uint32_t> use_counts(const Graph& graph) {
  std::vector<std::uint32_t> uses(graph.nodes().size(), 0);
  for (const Node& node : graph.nodes()) {
    for (const NodeId input : node.inputs) {
      ++uses[input];
    }
  }
  for (const Output& output : graph.outputs()) {
    ++uses[output.node];
  }
  return uses;
}

}  // namespace difflet::graph
