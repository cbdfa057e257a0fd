#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

// Every value of `narrow` is one of `wide`.
bool lossless(DType narrow, DType wide) {
  return narrow == wide || (wide == DType::F32 && is_float(narrow)) ||
         (wide == DType::I64 && narrow == DType::I32);
}

// The node of `to` that equals the op over `inputs` and is not a copy of it, if there is one.
class Simplification {
 public:
  using Result = std::optional<NodeId>;

  Simplification(Graph& to, const Type& type, std::span<const NodeId> inputs)
      : to_(to), type_(type), in_(inputs) {}

  Result operator()(const Binary& op);
  Result operator()(const Convert& op);
  Result operator()(const Reshape& op);
  Result operator()(const Transpose& op);
  Result operator()(const Broadcast&) { return same_type(); }
  Result operator()(const Slice&) { return same_type(); }
  Result operator()(const Pad&) { return same_type(); }
  Result operator()(const Concat&) { return in_.size() == 1 ? same_type() : std::nullopt; }
  Result operator()(const Upsample&) { return same_type(); }
  Result operator()(const Reduce& op) { return op.axes.empty() ? same_type() : std::nullopt; }
  Result operator()(const Activate& op) {
    return op.act == Activation::None ? same_type() : std::nullopt;
  }
  Result operator()(const AllReduce& op) { return alone(op.mesh_axis); }
  Result operator()(const AllGather& op) { return alone(op.mesh_axis); }
  Result operator()(const ReduceScatter& op) { return alone(op.mesh_axis); }
  Result operator()(const AllToAll& op) { return alone(op.mesh_axis); }
  Result operator()(const RingShift& op) { return alone(op.mesh_axis); }
  template <typename Other>
  Result operator()(const Other&) {
    return std::nullopt;
  }

 private:
  // For ops that change nothing when they do not change the type.
  Result same_type() const {
    return to_.node(in_[0]).type == type_ ? Result(in_[0]) : std::nullopt;
  }
  Result alone(spmd::Axis axis) const {
    return to_.mesh().size(axis) == 1 ? Result(in_[0]) : std::nullopt;
  }
  // Operand `i` when the other one is the scalar `identity` and does not widen the result.
  Result without(std::size_t other, double identity) const {
    const NodeId kept = in_[1 - other];
    const bool folds = constant_scalar(to_, in_[other]) == identity && to_.node(kept).type == type_;
    return folds ? Result(kept) : std::nullopt;
  }

  Graph& to_;
  const Type& type_;
  std::span<const NodeId> in_;
};

Simplification::Result Simplification::operator()(const Binary& op) {
  Result folded;
  switch (op.kind) {
    case BinaryKind::Add:
      folded = without(0, 0);
      return folded ? folded : without(1, 0);
    case BinaryKind::Mul:
      folded = without(0, 1);
      return folded ? folded : without(1, 1);
    case BinaryKind::Sub:
      return without(1, 0);
    case BinaryKind::Div:
      return without(1, 1);
    case BinaryKind::Max:
    case BinaryKind::Min:
    case BinaryKind::Pow:
      break;
  }
  return folded;
}

Simplification::Result Simplification::operator()(const Convert&) {
  const Node& inner = to_.node(in_[0]);
  if (std::holds_alternative<Convert>(inner.op)) {
    const Type& source = to_.node(inner.inputs[0]).type;
    if (source == type_ && lossless(source.dtype, inner.type.dtype)) {
      return inner.inputs[0];
    }
  }
  return same_type();
}

Simplification::Result Simplification::operator()(const Reshape& op) {
  if (op_of<Reshape>(to_, in_[0]) == nullptr) {
    return same_type();
  }
  const NodeId source = to_.node(in_[0]).inputs[0];
  return to_.node(source).type == type_ ? source : to_.add(op, {source});
}

Simplification::Result Simplification::operator()(const Transpose& op) {
  NodeId source = in_[0];
  Dims permutation = op.permutation;
  if (const auto* inner = op_of<Transpose>(to_, source)) {
    for (std::int64_t& axis : permutation) {
      axis = inner->permutation[static_cast<std::size_t>(axis)];
    }
    source = to_.node(source).inputs[0];
  }
  bool identity = true;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    identity = identity && permutation[i] == static_cast<std::int64_t>(i);
  }
  if (identity) {
    return source;
  }
  return source == in_[0] ? Result() : to_.add(Transpose{std::move(permutation)}, {source});
}

}  // namespace

Graph simplify(const Graph& graph) {
  const Graph simple = rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    const Node& node = graph.node(id);
    Simplification simplification(to, node.type, inputs);
    const auto found = std::visit(simplification, node.op);
    return found ? *found : copy_node(to, graph, id, inputs);
  });
  return eliminate_dead(simple);
}

}  // namespace difflet::graph::passes
