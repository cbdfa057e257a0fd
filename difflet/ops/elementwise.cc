#include "difflet/base/error.h"
#include "difflet/graph/builder.h"
#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {

using graph::BinaryKind;
using graph::CompareKind;
using graph::UnaryKind;

namespace {

Tensor unary(UnaryKind kind, Tensor x) { return add_node(graph::Unary{kind}, {x}); }
Tensor binary(BinaryKind kind, Tensor a, Tensor b) { return add_node(graph::Binary{kind}, {a, b}); }
Tensor like(Tensor x, double value) { return scalar(*x.graph, x.dtype(), value); }

template <typename Operands>
Tensor add_checked(graph::Op op, const Operands& operands) {
  require(operands.size() > 0, "ops: an op over handles needs an operand");
  graph::Graph* graph = operands.begin()->graph;
  if (graph == nullptr) {
    fail(ErrorCode::Internal, "internal error: ops: an operand of no graph");
  }
  std::vector<graph::NodeId> ids;
  ids.reserve(operands.size());
  for (const Tensor t : operands) {
    require(t.graph == graph, "ops: operands of different graphs");
    ids.push_back(t.id);
  }
  return {graph, graph->add(std::move(op), std::move(ids))};
}

}  // namespace

Tensor add_node(graph::Op op, std::initializer_list<Tensor> operands) {
  return add_checked(std::move(op), operands);
}
Tensor add_node(graph::Op op, const std::vector<Tensor>& operands) {
  return add_checked(std::move(op), operands);
}

std::int64_t axis_of(const Shape& shape, int axis) {
  return static_cast<std::int64_t>(shape.axis(axis));
}

Tensor input(graph::Graph& g, std::string name, DType dtype, const Shape& shape,
             graph::Binding binding) {
  return {&g, g.add(graph::Input{std::move(name), dtype, shape, binding}, {})};
}
Tensor constant(graph::Graph& g, HostTensor value) {
  return {&g, g.add(graph::Constant{std::move(value)}, {})};
}
Tensor scalar(graph::Graph& g, DType dtype, double value) {
  return constant(g, graph::scalar_tensor(dtype, value));
}
Tensor iota(graph::Graph& g, DType dtype, const Shape& shape, int axis) {
  return {&g, g.add(graph::Iota{dtype, shape, axis_of(shape, axis)}, {})};
}
Tensor rank_index(graph::Graph& g, spmd::Axis axis) {
  return {&g, g.add(graph::RankIndex{axis}, {})};
}
void output(std::string name, Tensor t) { t.graph->add_output(std::move(name), t.id); }

Tensor operator+(Tensor a, Tensor b) { return binary(BinaryKind::Add, a, b); }
Tensor operator-(Tensor a, Tensor b) { return binary(BinaryKind::Sub, a, b); }
Tensor operator*(Tensor a, Tensor b) { return binary(BinaryKind::Mul, a, b); }
Tensor operator/(Tensor a, Tensor b) { return binary(BinaryKind::Div, a, b); }
Tensor operator+(Tensor a, double b) { return a + like(a, b); }
Tensor operator+(double a, Tensor b) { return like(b, a) + b; }
Tensor operator-(Tensor a, double b) { return a - like(a, b); }
Tensor operator*(Tensor a, double b) { return a * like(a, b); }
Tensor operator*(double a, Tensor b) { return like(b, a) * b; }
Tensor operator/(Tensor a, double b) { return a / like(a, b); }
Tensor operator-(Tensor a) { return unary(UnaryKind::Neg, a); }
Tensor maximum(Tensor a, Tensor b) { return binary(BinaryKind::Max, a, b); }
Tensor minimum(Tensor a, Tensor b) { return binary(BinaryKind::Min, a, b); }
Tensor exp(Tensor x) { return unary(UnaryKind::Exp, x); }
Tensor log(Tensor x) { return unary(UnaryKind::Log, x); }
Tensor sin(Tensor x) { return unary(UnaryKind::Sin, x); }
Tensor cos(Tensor x) { return unary(UnaryKind::Cos, x); }
Tensor sqrt(Tensor x) { return unary(UnaryKind::Sqrt, x); }
Tensor rsqrt(Tensor x) { return unary(UnaryKind::Rsqrt, x); }
Tensor tanh(Tensor x) { return unary(UnaryKind::Tanh, x); }
Tensor abs(Tensor x) { return unary(UnaryKind::Abs, x); }
Tensor floor(Tensor x) { return unary(UnaryKind::Floor, x); }
Tensor less(Tensor a, Tensor b) { return add_node(graph::Compare{CompareKind::Lt}, {a, b}); }
Tensor equal(Tensor a, Tensor b) { return add_node(graph::Compare{CompareKind::Eq}, {a, b}); }
Tensor select(Tensor condition, Tensor a, Tensor b) {
  return add_node(graph::Select{}, {condition, a, b});
}
Tensor convert(Tensor x, DType dtype) {
  return x.dtype() == dtype ? x : add_node(graph::Convert{dtype}, {x});
}
Tensor activate(Tensor x, graph::Activation act) {
  return act == graph::Activation::None ? x : add_node(graph::Activate{act}, {x});
}
Tensor silu(Tensor x) { return activate(x, graph::Activation::Silu); }

}  // namespace difflet::ops
