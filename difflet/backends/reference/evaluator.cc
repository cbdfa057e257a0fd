#include "difflet/backends/reference/evaluator.h"

#include <algorithm>

#include "difflet/backends/reference/kernels.h"
#include "difflet/base/error.h"
#include "difflet/graph/passes/passes.h"
#include "difflet/runtime/checks.h"

namespace difflet::reference {

namespace g = difflet::graph;

namespace {

class PrimitivesOnly final : public g::Target {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  std::optional<g::Refusal> claims(const g::Op& op, std::span<const g::Type>) const override {
    return g::Refusal{fmt::format("{}: the reference runs the definition", g::op_name(op))};
  }
};

// One node: operands and result type are known, the op is visited.
class Evaluation {
 public:
  Evaluation(const RankProgram& program, Communicator& communicator, const g::Type& type,
             std::span<const ValuePtr> operands)
      : program_(program), communicator_(communicator), type_(type), in_(operands) {}

  Value operator()(const g::Iota& op) const { return iota(op); }
  Value operator()(const g::Unary& op) const { return unary(op.kind, x()); }
  Value operator()(const g::Binary& op) const { return binary(op.kind, x(), y(), type_); }
  Value operator()(const g::Compare& op) const { return compare(op.kind, x(), y(), type_); }
  Value operator()(const g::Select&) const { return select(x(), y(), *in_[2], type_); }
  Value operator()(const g::Convert& op) const { return convert(x(), op.dtype); }
  Value operator()(const g::Reshape& op) const { return reshape(x(), op.shape); }
  Value operator()(const g::Transpose& op) const { return transpose(x(), op.permutation, type_); }
  Value operator()(const g::Broadcast& op) const { return broadcast(x(), op.shape); }
  Value operator()(const g::Slice& op) const { return slice(x(), op, type_); }
  Value operator()(const g::DynamicSlice& op) const {
    return part(x(), op.axis, y().ints[0], op.extent);
  }
  Value operator()(const g::Concat& op) const { return concat(in_, op.axis); }
  Value operator()(const g::Pad& op) const { return pad(x(), op, type_); }
  Value operator()(const g::Gather&) const { return gather(x(), y(), type_); }
  Value operator()(const g::Reduce& op) const { return reduce(op.kind, x(), type_); }
  Value operator()(const g::ArgMax& op) const { return argmax(x(), op.axis, type_); }
  Value operator()(const g::MatMul&) const { return matmul(x(), y(), type_); }
  Value operator()(const g::Conv2d& op) const { return conv2d(op, in_, type_); }

  Value operator()(const g::RankIndex& op) const {
    Value out(type_);
    out.ints[0] = coordinate(op.mesh_axis);
    return out;
  }
  Value operator()(const g::AllReduce& op) const {
    return reduce_values(op.kind, exchange(op.mesh_axis));
  }
  Value operator()(const g::AllGather& op) const { return concat(exchange(op.mesh_axis), op.axis); }
  Value operator()(const g::ReduceScatter& op) const {
    const std::int64_t extent = type_.shape[static_cast<std::size_t>(op.axis)];
    return part(reduce_values(g::ReduceKind::Sum, exchange(op.mesh_axis)), op.axis,
                coordinate(op.mesh_axis) * extent, extent);
  }
  Value operator()(const g::AllToAll& op) const {
    const std::int64_t extent = type_.shape[static_cast<std::size_t>(op.split_axis)];
    std::vector<ValuePtr> parts;
    for (const ValuePtr& value : exchange(op.mesh_axis)) {
      parts.push_back(std::make_shared<const Value>(
          part(*value, op.split_axis, coordinate(op.mesh_axis) * extent, extent)));
    }
    return concat(parts, op.join_axis);
  }
  Value operator()(const g::RingShift& op) const {
    const std::vector<ValuePtr> values = exchange(op.mesh_axis);
    const auto size = static_cast<std::int64_t>(values.size());
    const std::int64_t from = (coordinate(op.mesh_axis) - op.shift % size + 2 * size) % size;
    return *values[static_cast<std::size_t>(from)];
  }

  // Set before the run, or expanded by prepare().
  Value operator()(const g::Input&) const { return unexpected(g::Input::kName); }
  Value operator()(const g::Param&) const { return unexpected(g::Param::kName); }
  Value operator()(const g::Constant&) const { return unexpected(g::Constant::kName); }
  Value operator()(const g::Linear&) const { return unexpected(g::Linear::kName); }
  Value operator()(const g::Activate&) const { return unexpected(g::Activate::kName); }
  Value operator()(const g::LayerNorm&) const { return unexpected(g::LayerNorm::kName); }
  Value operator()(const g::RmsNorm&) const { return unexpected(g::RmsNorm::kName); }
  Value operator()(const g::GroupNorm&) const { return unexpected(g::GroupNorm::kName); }
  Value operator()(const g::GroupStatistics&) const {
    return unexpected(g::GroupStatistics::kName);
  }
  Value operator()(const g::Softmax&) const { return unexpected(g::Softmax::kName); }
  Value operator()(const g::Attention&) const { return unexpected(g::Attention::kName); }
  Value operator()(const g::Rope&) const { return unexpected(g::Rope::kName); }
  Value operator()(const g::Upsample&) const { return unexpected(g::Upsample::kName); }

 private:
  const Value& x() const { return *in_[0]; }
  const Value& y() const { return *in_[1]; }
  std::int64_t coordinate(spmd::Axis axis) const {
    return program_.graph->mesh().coordinate(program_.rank, axis);
  }
  std::vector<ValuePtr> exchange(spmd::Axis axis) const {
    return communicator_.exchange(program_.rank, axis, in_[0]);
  }
  [[noreturn]] static Value unexpected(std::string_view op) {
    fail(ErrorCode::Internal, "reference: {} in a prepared program", op);
  }

  const RankProgram& program_;
  Communicator& communicator_;
  const g::Type& type_;
  std::span<const ValuePtr> in_;
};

ValuePtr evaluate_node(const RankProgram& program, Communicator& communicator, const g::Node& node,
                       const std::vector<ValuePtr>& values) {
  std::vector<ValuePtr> operands;
  operands.reserve(node.inputs.size());
  for (const g::NodeId input : node.inputs) {
    operands.push_back(values[input]);
  }
  try {
    const Evaluation evaluation(program, communicator, node.type, operands);
    return std::make_shared<const Value>(std::visit(evaluation, node.op));
  } catch (Error& e) {
    if (const auto scope = program.graph->scope_name(node.scope); !scope.empty()) {
      e.add_context(scope);
    }
    throw;
  }
}

}  // namespace

std::shared_ptr<const g::Graph> prepare(const g::Graph& graph) {
  return std::make_shared<const g::Graph>(g::passes::expand_composites(graph, PrimitivesOnly{}));
}

std::vector<runtime::WeightPiece> pieces_of(const g::Graph& graph) {
  std::vector<runtime::WeightPiece> pieces;
  pieces.reserve(graph.params().size());
  for (const g::ParamDecl& decl : graph.params()) {
    const auto elements = static_cast<std::size_t>(g::local_shape(decl, graph.mesh()).elements());
    pieces.push_back({fmt::format("{}|plain.{}", decl.name, dtype_name(decl.dtype)),
                      runtime::piece_bytes(elements * dtype_bytes(decl.dtype))});
  }
  return pieces;
}

runtime::MemoryReport planned_memory(const g::Graph& graph) {
  const auto nodes = graph.nodes();
  const auto bytes = [&](std::size_t i) {
    const g::Type& type = nodes[i].type;
    return static_cast<std::size_t>(type.shape.elements()) *
           (is_float(type.dtype) ? sizeof(float) : sizeof(std::int64_t));
  };
  runtime::MemoryReport report;
  for (const runtime::WeightPiece& piece : pieces_of(graph)) {
    report.weight_bytes += piece.bytes;
  }
  std::vector<std::uint32_t> uses = g::use_counts(graph);
  std::size_t live = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    live += bytes(i);
    report.arena_bytes = std::max(report.arena_bytes, live);
    for (const g::NodeId input : nodes[i].inputs) {
      if (--uses[input] == 0) {
        live -= bytes(input);
      }
    }
  }
  return report;
}

RankProgram load_rank(std::shared_ptr<const g::Graph> graph,
                      const std::shared_ptr<const runtime::PackedWeights>& weights,
                      std::int64_t rank) {
  RankProgram program{std::move(graph), rank, {}, {}, {}};
  const std::vector<runtime::WeightPiece> pieces = pieces_of(*program.graph);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const g::ParamDecl& decl = program.graph->params()[i];
    const Shape shape = g::local_shape(decl, program.graph->mesh());
    const auto used = static_cast<std::size_t>(shape.elements()) * dtype_bytes(decl.dtype);
    program.params.emplace_back(decl.dtype, shape, weights->piece(pieces[i]).first(used), weights);
  }
  const auto nodes = program.graph->nodes();
  program.constants.resize(nodes.size());
  program.last_use.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    program.last_use[i] = static_cast<g::NodeId>(i);
    for (const g::NodeId input : nodes[i].inputs) {
      program.last_use[input] = static_cast<g::NodeId>(i);
    }
    if (const auto* constant = std::get_if<g::Constant>(&nodes[i].op)) {
      program.constants[i] = std::make_shared<const Value>(from_host(constant->value));
    }
  }
  for (const g::Output& output : program.graph->outputs()) {
    program.last_use[output.node] = static_cast<g::NodeId>(nodes.size());
  }
  return program;
}

std::vector<HostTensor> evaluate(const RankProgram& program, Communicator& communicator,
                                 const std::vector<HostTensor>& inputs) {
  const g::Graph& graph = *program.graph;
  runtime::check_inputs(graph, inputs);
  std::vector<ValuePtr> values = program.constants;
  const std::vector<g::NodeId> input_nodes = graph.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[input_nodes[i]] = std::make_shared<const Value>(from_host(inputs[i]));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (const auto* param = std::get_if<g::Param>(&graph.nodes()[i].op)) {
      const HostTensor& tensor = program.params[static_cast<std::size_t>(param->index)];
      values[i] = std::make_shared<const Value>(from_host(tensor));
    } else if (values[i] == nullptr) {
      values[i] = evaluate_node(program, communicator, graph.nodes()[i], values);
    }
    for (const g::NodeId input : graph.nodes()[i].inputs) {
      if (program.last_use[input] == i) {
        values[input].reset();
      }
    }
  }
  std::vector<HostTensor> outputs;
  outputs.reserve(graph.outputs().size());
  for (const g::Output& output : graph.outputs()) {
    outputs.push_back(to_host(*values[output.node]));
  }
  return outputs;
}

}  // namespace difflet::reference
