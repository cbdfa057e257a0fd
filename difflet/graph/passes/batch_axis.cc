#include "difflet/graph/passes/batch_axis.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "difflet/base/error.h"

namespace difflet::graph::passes {
namespace {

// Why an op has no rule, one overload an op.
class Refusals {
 public:
  using Reason = std::optional<std::string>;

  explicit Refusals(const std::vector<bool>& batched) : batched_(batched) {}

  Reason operator()(const Input&) const { return {}; }
  Reason operator()(const Param&) const { return {}; }
  Reason operator()(const Constant&) const { return {}; }
  Reason operator()(const RankIndex&) const { return {}; }
  Reason operator()(const Iota&) const { return {}; }
  Reason operator()(const Unary&) const { return {}; }
  Reason operator()(const Binary&) const { return {}; }
  Reason operator()(const Compare&) const { return {}; }
  Reason operator()(const Select&) const { return {}; }
  Reason operator()(const Convert&) const { return {}; }
  Reason operator()(const Reshape&) const { return {}; }
  Reason operator()(const Transpose&) const { return {}; }
  Reason operator()(const Broadcast&) const { return {}; }
  Reason operator()(const Slice&) const { return {}; }
  Reason operator()(const DynamicSlice&) const { return one_for_all(1, 1, "start"); }
  Reason operator()(const Concat&) const { return {}; }
  Reason operator()(const Pad&) const { return {}; }
  Reason operator()(const Gather&) const { return one_for_all(0, 1, "table"); }
  Reason operator()(const Reduce&) const { return {}; }
  Reason operator()(const ArgMax&) const { return {}; }
  Reason operator()(const MatMul&) const { return {}; }
  Reason operator()(const Conv2d&) const { return one_for_all(1, 2, "weight"); }
  Reason operator()(const AllReduce&) const { return {}; }
  Reason operator()(const AllGather&) const { return {}; }
  Reason operator()(const ReduceScatter&) const { return {}; }
  Reason operator()(const AllToAll&) const { return {}; }
  Reason operator()(const RingShift&) const { return {}; }
  Reason operator()(const Linear& op) const {
    return one_for_all(1, op.epilogue() - (op.bias ? 0U : 1U), "weight");
  }
  Reason operator()(const Activate&) const { return {}; }
  Reason operator()(const LayerNorm& op) const {
    return one_for_all(1, op.affine ? 2 : 0, "weight");
  }
  Reason operator()(const RmsNorm&) const { return one_for_all(1, 1, "weight"); }
  Reason operator()(const GroupNorm&) const { return one_for_all(1, 2, "weight"); }
  Reason operator()(const GroupStatistics&) const { return {}; }
  Reason operator()(const Softmax&) const { return {}; }
  Reason operator()(const Attention&) const { return {}; }
  Reason operator()(const Rope&) const { return one_for_all(1, 3, "table"); }
  Reason operator()(const Upsample&) const { return {}; }

 private:
  // The operands [first, first + count) that are there must not have the new axis.
  Reason one_for_all(std::size_t first, std::size_t count, std::string_view what) const {
    for (std::size_t i = first; i < std::min(first + count, batched_.size()); ++i) {
      if (batched_[i]) {
        return fmt::format("its {} would differ along the new axis", what);
      }
    }
    return {};
  }

  const std::vector<bool>& batched_;
};

// A node of the graph before the pass, in the graph after it.
struct Value {
  NodeId node = 0;
  bool batched = false;
};

// Changes the shape of operands; the same change of the same node is made once.
class Reshaper {
 public:
  explicit Reshaper(Graph& to) : to_(to) {}
  NodeId reshape(NodeId x, const Shape& shape) { return change<Reshape>(x, shape); }
  NodeId broadcast(NodeId x, const Shape& shape) { return change<Broadcast>(x, shape); }

 private:
  template <typename O>
  NodeId change(NodeId x, const Shape& shape) {
    if (to_.node(x).type.shape == shape) {
      return x;
    }
    const auto [known, fresh] = known_.try_emplace(
        std::tuple{x, std::is_same_v<O, Reshape>, Dims(shape.dims().begin(), shape.dims().end())});
    if (fresh) {
      known->second = to_.add(O{shape}, {x});
    }
    return known->second;
  }

  Graph& to_;
  std::map<std::tuple<NodeId, bool, Dims>, NodeId> known_;
};

// The rules: adds the node that stands for `node` when an operand has the new axis. Every overload
// returns a node of the shape [T, ...result], T the extent of the new axis.
class Rules {
 public:
  Rules(Graph& to, Reshaper& reshaper, std::int64_t extent, const Graph& from, const Node& node,
        std::span<const Value> inputs)
      : to_(to), reshaper_(reshaper), extent_(extent), from_(from), node_(node), in_(inputs) {}

  NodeId operator()(const Input& op) { return unexpected(op); }
  NodeId operator()(const Param& op) { return unexpected(op); }
  NodeId operator()(const Constant& op) { return unexpected(op); }
  NodeId operator()(const RankIndex& op) { return unexpected(op); }
  NodeId operator()(const Iota& op) { return unexpected(op); }
  NodeId operator()(const Unary& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const Binary& op) { return broadcasting(op); }
  NodeId operator()(const Compare& op) { return broadcasting(op); }
  NodeId operator()(const Select& op) { return broadcasting(op); }
  NodeId operator()(const Convert& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const Reshape& op) { return to_.add(Reshape{leading(op.shape)}, {x(0)}); }
  NodeId operator()(const Transpose& op) {
    Transpose moved = op;
    moved.permutation = inner_axes(op.permutation);
    moved.permutation.insert(moved.permutation.begin(), 0);
    return to_.add(std::move(moved), {x(0)});
  }
  NodeId operator()(const Broadcast& op) {
    return to_.add(Broadcast{leading(op.shape)}, {aligned(0)});
  }
  NodeId operator()(const Slice& op) { return inner_axis(op, {x(0)}); }
  NodeId operator()(const DynamicSlice& op) { return inner_axis(op, {x(0), x(1)}); }
  NodeId operator()(const Concat& op) {
    std::vector<NodeId> parts;
    parts.reserve(in_.size());
    for (std::size_t i = 0; i < in_.size(); ++i) {
      parts.push_back(repeated(i));
    }
    return inner_axis(op, std::move(parts));
  }
  NodeId operator()(const Pad& op) { return inner_axis(op, {x(0)}); }
  NodeId operator()(const Gather& op) { return to_.add(op, {x(0), x(1)}); }
  NodeId operator()(const Reduce& op) {
    return to_.add(Reduce{op.kind, inner_axes(op.axes)}, {x(0)});
  }
  NodeId operator()(const ArgMax& op) { return inner_axis(op, {x(0)}); }
  NodeId operator()(const MatMul& op) { return broadcasting(op); }
  NodeId operator()(const Conv2d& op) { return over_batch(op, {merged(0)}, 1); }
  NodeId operator()(const AllReduce& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const AllGather& op) { return inner_axis(op, {x(0)}); }
  NodeId operator()(const ReduceScatter& op) { return inner_axis(op, {x(0)}); }
  NodeId operator()(const AllToAll& op) {
    AllToAll moved = op;
    ++moved.split_axis;
    ++moved.join_axis;
    return to_.add(moved, {x(0)});
  }
  NodeId operator()(const RingShift& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const Linear& op) {
    // x gives the result its shape; only a mul or a residual may have the axis.
    std::vector<NodeId> operands{repeated(0)};
    std::size_t i = 1;
    for (const std::size_t shared = op.epilogue() + (op.bias ? 1U : 0U); i < shared; ++i) {
      operands.push_back(x(i));
    }
    if (op.mul) {
      operands.push_back(aligned(i++));
    }
    if (op.residual) {
      operands.push_back(repeated(i));
    }
    return to_.add(op, std::move(operands));
  }
  NodeId operator()(const Activate& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const LayerNorm& op) {
    std::vector<NodeId> operands{repeated(0)};
    std::size_t i = 1;
    for (const std::size_t modulation = op.affine ? 3 : 1; i < in_.size(); ++i) {
      operands.push_back(i < modulation ? x(i) : aligned(i));
    }
    return to_.add(op, std::move(operands));
  }
  NodeId operator()(const RmsNorm& op) {
    return op.weight ? to_.add(op, {x(0), x(1)}) : to_.add(op, {x(0)});
  }
  NodeId operator()(const GroupNorm& op) {
    std::vector<NodeId> operands{merged(0), x(1), x(2)};
    if (op.statistics) {
      operands.push_back(merged(3));
    }
    return over_batch(op, std::move(operands), in_.size());
  }
  NodeId operator()(const GroupStatistics& op) { return over_batch(op, {merged(0)}, 1); }
  NodeId operator()(const Softmax& op) { return to_.add(op, {x(0)}); }
  NodeId operator()(const Attention& op) {
    std::vector<NodeId> operands{merged(0), merged(1), merged(2)};
    if (op.bias) {
      operands.push_back(attention_bias());
    }
    for (std::size_t i = operands.size(); i < in_.size(); ++i) {
      operands.push_back(merged(i));
    }
    return over_batch(op, std::move(operands), in_.size());
  }
  NodeId operator()(const Rope& op) { return over_batch(op, {merged(0)}, 1); }
  NodeId operator()(const Upsample& op) { return over_batch(op, {merged(0)}, 1); }

 private:
  template <typename O>
  static NodeId unexpected(const O&) {
    fail(ErrorCode::Internal, "batch_axis: {} has no operands", O::kName);
  }

  // Operand i as it is, its shape before the pass, and the rank of the result before the pass.
  NodeId x(std::size_t i) const { return in_[i].node; }
  const Shape& shape(std::size_t i) const { return from_.node(node_.inputs[i]).type.shape; }
  std::size_t rank() const { return node_.type.shape.rank(); }

  // [T, 1 ..., dims of `shape`] with `ones` axes of extent 1.
  Shape leading(const Shape& shape, std::size_t ones = 0) const {
    Dims dims(ones + 1, 1);
    dims[0] = extent_;
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    return Shape(std::span<const std::int64_t>(dims));
  }
  // Operand i so that it broadcasts to the result: its other axes stay the last ones.
  NodeId aligned(std::size_t i) {
    return in_[i].batched ? reshaper_.reshape(x(i), leading(shape(i), rank() - shape(i).rank()))
                          : x(i);
  }
  // Operand i as [T, ...], repeated when it lacks the axis.
  NodeId repeated(std::size_t i) {
    return in_[i].batched ? x(i) : reshaper_.broadcast(x(i), leading(shape(i)));
  }
  // Operand i [B, ...] as [T * B, ...].
  NodeId merged(std::size_t i) {
    return reshaper_.reshape(repeated(i), shape(i).with(0, extent_ * shape(i)[0]));
  }

  template <typename O>
  NodeId broadcasting(const O& op) {
    std::vector<NodeId> operands;
    operands.reserve(in_.size());
    for (std::size_t i = 0; i < in_.size(); ++i) {
      operands.push_back(aligned(i));
    }
    return to_.add(op, std::move(operands));
  }
  template <typename O>
  NodeId inner_axis(O op, std::vector<NodeId> operands) {
    ++op.axis;
    return to_.add(op, std::move(operands));
  }
  static Dims inner_axes(Dims axes) {
    for (std::int64_t& axis : axes) {
      ++axis;
    }
    return axes;
  }
  // The new axis is part of the batch: `operands` have it there, those from `rest` on stay as they are.
  template <typename O>
  NodeId over_batch(const O& op, std::vector<NodeId> operands, std::size_t rest) {
    for (std::size_t i = rest; i < in_.size(); ++i) {
      operands.push_back(x(i));
    }
    return reshaper_.reshape(to_.add(op, std::move(operands)), leading(node_.type.shape));
  }
  // [1 or B, ., ., .]: one for the whole batch stays one when it lacks the axis.
  NodeId attention_bias() {
    constexpr std::size_t kBias = 3;
    const std::int64_t batch = shape(0)[0];
    if (shape(kBias)[0] == batch) {
      return in_[kBias].batched || batch > 1 ? merged(kBias) : x(kBias);
    }
    if (!in_[kBias].batched) {
      return x(kBias);
    }
    const Shape whole = shape(kBias).with(0, batch);
    return reshaper_.reshape(reshaper_.broadcast(x(kBias), leading(whole)),
                             whole.with(0, extent_ * batch));
  }

  Graph& to_;
  Reshaper& reshaper_;
  std::int64_t extent_;
  const Graph& from_;
  const Node& node_;
  std::span<const Value> in_;
};

class Batching {
 public:
  Batching(const Graph& from, std::int64_t extent, std::span<const std::string> inputs)
      : from_(from),
        to_(from.name(), from.mesh()),
        reshaper_(to_),
        extent_(extent),
        inputs_(inputs),
        values_(from.nodes().size()) {}

  Graph run() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      to_.set_scope(from_.scope_name(from_.node(id).scope));
      values_[i] = emit(id);
    }
    to_.restore_scope(0);
    for (const Output& output : from_.outputs()) {
      to_.add_output(output.name, values_[output.node].node);
    }
    return std::move(to_);
  }

 private:
  Value emit(NodeId id) {
    const Node& node = from_.node(id);
    if (const auto* input = std::get_if<Input>(&node.op)) {
      return emit_input(*input);
    }
    std::vector<Value> operands;
    std::vector<NodeId> ids;
    std::vector<bool> batched;
    for (const NodeId operand : node.inputs) {
      operands.push_back(values_[operand]);
      ids.push_back(operands.back().node);
      batched.push_back(operands.back().batched);
    }
    if (std::ranges::find(batched, true) == batched.end()) {
      return {copy_node(to_, from_, id, ids), false};
    }
    if (const auto reason = cannot_batch(from_, id, batched)) {
      const std::string_view scope = from_.scope_name(node.scope);
      fail(ErrorCode::Unsupported, "batch_axis: {}{}%{} = {}: {}", scope, scope.empty() ? "" : ": ",
           id, op_name(node.op), *reason);
    }
    Rules rules(to_, reshaper_, extent_, from_, node, operands);
    return {std::visit(rules, node.op), true};
  }

  Value emit_input(const Input& input) {
    if (std::ranges::find(inputs_, input.name) == inputs_.end()) {
      return {to_.add(input, {}), false};
    }
    Dims dims{extent_};
    dims.insert(dims.end(), input.shape.dims().begin(), input.shape.dims().end());
    Input wide = input;
    wide.shape = Shape(std::span<const std::int64_t>(dims));
    return {to_.add(std::move(wide), {}), true};
  }

  const Graph& from_;
  Graph to_;
  Reshaper reshaper_;
  std::int64_t extent_;
  std::span<const std::string> inputs_;
  std::vector<Value> values_;  // by node of `from`
};

}  // namespace

std::optional<std::string> cannot_batch(const Graph& graph, NodeId id,
                                        const std::vector<bool>& batched) {
  const Node& node = graph.node(id);
  require(batched.size() == node.inputs.size(), "cannot_batch: one flag an operand");
  auto reason = std::visit(Refusals(batched), node.op);
  if (!reason && node.type.shape.rank() == Shape::kMaxRank) {
    reason = fmt::format("its result {} has no room for another axis", node.type.str());
  }
  return reason;
}

Graph batch_axis(const Graph& graph, std::int64_t extent, std::span<const std::string> inputs) {
  check(extent >= 1, ErrorCode::InvalidArgument, "batch_axis: the extent {} must be positive",
        extent);
  for (const std::string& name : inputs) {
    const bool known = std::ranges::any_of(
        graph.inputs(), [&](NodeId id) { return std::get<Input>(graph.node(id).op).name == name; });
    check(known, ErrorCode::InvalidArgument, "batch_axis: graph '{}' has no input '{}'",
          graph.name(), name);
  }
  return Batching(graph, extent, inputs).run();
}

}  // namespace difflet::graph::passes
