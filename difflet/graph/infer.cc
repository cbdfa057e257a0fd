#include <limits>

#include "difflet/graph/enum_names.h"
#include "difflet/graph/inference.h"

namespace difflet::graph {

void Inference::refuse(const std::string& what) const {
  std::string message = fmt::format("{}: {}", op_, what);
  for (std::size_t i = 0; i < in_.size(); ++i) {
    message += fmt::format("{}{}", i == 0 ? "; operands " : ", ", in_[i].str());
  }
  raise(ErrorCode::InvalidArgument, std::move(message));
}

void Inference::arity(std::size_t expected) const {
  expect(in_.size() == expected, "takes {} operands, not {}", expected, in_.size());
}

std::size_t Inference::axis(std::int64_t axis, const Shape& shape) const {
  expect(axis >= 0 && axis < static_cast<std::int64_t>(shape.rank()), "{} is not an axis of {}",
         axis, shape.str());
  return static_cast<std::size_t>(axis);
}

std::int64_t Inference::times(std::int64_t a, std::int64_t b) const {
  std::int64_t result = 0;
  expect(!__builtin_mul_overflow(a, b, &result), "{} * {} is too large", a, b);
  return result;
}

std::int64_t Inference::plus(std::int64_t a, std::int64_t b) const {
  std::int64_t result = 0;
  expect(!__builtin_add_overflow(a, b, &result), "{} + {} is too large", a, b);
  return result;
}

Shape Inference::shape(const Dims& dims) const {
  expect(dims.size() <= Shape::kMaxRank, "the result has {} axes, more than {}", dims.size(),
         Shape::kMaxRank);
  return Shape(std::span<const std::int64_t>(dims));
}

Shape Inference::broadcast(const Shape& a, const Shape& b) const {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Dims dims(longer.dims().begin(), longer.dims().end());
  const std::size_t offset = longer.rank() - shorter.rank();
  for (std::size_t i = 0; i < shorter.rank(); ++i) {
    std::int64_t& extent = dims[offset + i];
    expect(extent == shorter[i] || extent == 1 || shorter[i] == 1, "{} and {} do not broadcast",
           a.str(), b.str());
    extent = extent == 1 ? shorter[i] : extent;
  }
  return shape(dims);
}

bool Inference::fits(const Shape& from, const Shape& to) noexcept {
  bool same = from.rank() <= to.rank();
  for (std::size_t i = 0; same && i < from.rank(); ++i) {
    same = from[i] == 1 || from[i] == to[to.rank() - from.rank() + i];
  }
  return same;
}

const Type& Inference::floating(std::size_t i) const {
  expect(is_float(in_[i].dtype), "operand {} must be floating-point, not {}", i, in_[i].str());
  return in_[i];
}

void Inference::group(spmd::Axis mesh_axis, std::int64_t size) const {
  expect(size == graph_.mesh().size(mesh_axis), "the group has {} ranks, but mesh axis {} has {}",
         size, spmd::axis_name(mesh_axis), graph_.mesh().size(mesh_axis));
}

// ---- leaves --------------------------------------------------------------------------------------

Type Inference::operator()(const Input& op) const {
  arity(0);
  return {op.dtype, op.shape};
}

Type Inference::operator()(const Param& op) const {
  arity(0);
  const auto params = graph_.params();
  expect(op.index >= 0 && op.index < static_cast<std::int64_t>(params.size()),
         "{} is not a parameter of the graph", op.index);
  const ParamDecl& decl = params[static_cast<std::size_t>(op.index)];
  return {decl.dtype, local_shape(decl, graph_.mesh())};
}

Type Inference::operator()(const Constant& op) const {
  arity(0);
  expect(op.value.bytes().size() ==
             static_cast<std::size_t>(op.value.shape().elements()) * dtype_bytes(op.value.dtype()),
         "the value has no bytes");
  return {op.value.dtype(), op.value.shape()};
}

Type Inference::operator()(const RankIndex&) const {
  arity(0);
  return {DType::I32, Shape{}};
}

Type Inference::operator()(const Iota& op) const {
  arity(0);
  axis(op.axis, op.shape);
  expect(op.dtype != DType::Bool, "a bool cannot count");
  return {op.dtype, op.shape};
}

// ---- elementwise ---------------------------------------------------------------------------------

Type Inference::operator()(const Unary& op) const {
  arity(1);
  const bool exact = op.kind == UnaryKind::Neg || op.kind == UnaryKind::Abs;
  expect(is_float(in_[0].dtype) || (exact && in_[0].dtype != DType::Bool),
         "{} is not defined for {}", enum_name(op.kind), in_[0].str());
  return in_[0];
}

Type Inference::operator()(const Binary& op) const {
  arity(2);
  expect(in_[0].dtype == in_[1].dtype, "{} of mixed dtypes; convert one", enum_name(op.kind));
  expect(in_[0].dtype != DType::Bool, "{} is not defined for bool", enum_name(op.kind));
  expect(op.kind != BinaryKind::Pow || is_float(in_[0].dtype), "pow is for floating-point");
  return {in_[0].dtype, broadcast(in_[0].shape, in_[1].shape)};
}

Type Inference::operator()(const Compare& op) const {
  arity(2);
  expect(in_[0].dtype == in_[1].dtype, "{} of mixed dtypes; convert one", enum_name(op.kind));
  return {DType::Bool, broadcast(in_[0].shape, in_[1].shape)};
}

Type Inference::operator()(const Select&) const {
  arity(3);
  expect(in_[0].dtype == DType::Bool, "the condition must be bool, not {}", in_[0].str());
  expect(in_[1].dtype == in_[2].dtype, "branches of mixed dtypes; convert one");
  return {in_[1].dtype, broadcast(broadcast(in_[0].shape, in_[1].shape), in_[2].shape)};
}

Type Inference::operator()(const Convert& op) const {
  arity(1);
  return {op.dtype, in_[0].shape};
}

// ---- reductions and products ---------------------------------------------------------------------

Type Inference::operator()(const Reduce& op) const {
  arity(1);
  expect(in_[0].dtype != DType::Bool, "not defined for bool");
  expect(op.kind != ReduceKind::Mean || is_float(in_[0].dtype), "mean is for floating-point");
  Shape result = in_[0].shape;
  std::int64_t before = -1;
  for (const std::int64_t a : op.axes) {
    expect(a > before, "axes must be ascending, without repetition");
    result = result.with(axis(a, result), 1);
    before = a;
  }
  return {in_[0].dtype, result};
}

Type Inference::operator()(const ArgMax& op) const {
  arity(1);
  expect(in_[0].dtype != DType::Bool, "not defined for bool");
  const std::size_t a = axis(op.axis, in_[0].shape);
  expect(in_[0].shape[a] <= std::numeric_limits<std::int32_t>::max(), "axis {} is too long", a);
  Dims dims(in_[0].shape.dims().begin(), in_[0].shape.dims().end());
  dims.erase(dims.begin() + op.axis);
  return {DType::I32, shape(dims)};
}

Type Inference::operator()(const MatMul&) const {
  arity(2);
  floating(0);
  expect(in_[0].dtype == in_[1].dtype, "of mixed dtypes; convert one");
  const Shape& a = in_[0].shape;
  const Shape& b = in_[1].shape;
  expect(a.rank() >= 2 && b.rank() >= 2, "both operands need two axes or more");
  const std::int64_t k = a[a.rank() - 1];
  expect(k == b[b.rank() - 2], "{} does not fit {} (last axis {}, second to last axis {})",
         in_[0].str(), in_[1].str(), k, b[b.rank() - 2]);
  const Shape lead =
      broadcast(Shape(a.dims().first(a.rank() - 2)), Shape(b.dims().first(b.rank() - 2)));
  Dims dims(lead.dims().begin(), lead.dims().end());
  dims.push_back(a[a.rank() - 2]);
  dims.push_back(b[b.rank() - 1]);
  return {in_[0].dtype, shape(dims)};
}

Type Inference::operator()(const Conv2d& op) const {
  arity(op.bias ? 3 : 2);
  const Type& x = floating(0);
  expect(x.shape.rank() == 4, "x must be [B, h, w, C], not {}", x.str());
  expect(in_[1].shape.rank() == 4, "weight must be [O, C/groups, kh, kw], not {}", in_[1].str());
  const Shape& w = in_[1].shape;
  weight(1, "weight", w);
  expect(op.stride >= 1 && op.groups >= 1, "stride {} and groups {} must be positive", op.stride,
         op.groups);
  expect(w[0] % op.groups == 0 && x.shape[3] % op.groups == 0 && x.shape[3] / op.groups == w[1],
         "x {} does not fit weight {} in {} groups (last axis {}, weight axis 1 {})", x.str(),
         in_[1].str(), op.groups, x.shape[3], w[1]);
  if (op.bias) {
    weight(2, "bias", Shape{w[0]});
  }
  const auto extent = [&](std::int64_t in, std::int64_t low, std::int64_t high, std::int64_t k) {
    expect(low >= 0 && high >= 0, "padding must not be negative");
    const std::int64_t padded = plus(plus(in, low), high);
    expect(padded >= k, "a kernel of {} does not fit {} padded elements", k, padded);
    return (padded - k) / op.stride + 1;
  };
  return {x.dtype, Shape{x.shape[0], extent(x.shape[1], op.pad_top, op.pad_bottom, w[2]),
                         extent(x.shape[2], op.pad_left, op.pad_right, w[3]), w[0]}};
}

// ---- collectives ---------------------------------------------------------------------------------

Type Inference::operator()(const AllReduce& op) const {
  arity(1);
  expect(in_[0].dtype != DType::Bool, "not defined for bool");
  expect(op.kind != ReduceKind::Mean || is_float(in_[0].dtype), "mean is for floating-point");
  return in_[0];
}

Type Inference::operator()(const AllGather& op) const {
  arity(1);
  group(op.mesh_axis, op.group);
  const std::size_t a = axis(op.axis, in_[0].shape);
  return {in_[0].dtype, in_[0].shape.with(a, times(in_[0].shape[a], op.group))};
}

Type Inference::operator()(const ReduceScatter& op) const {
  arity(1);
  expect(in_[0].dtype != DType::Bool, "not defined for bool");
  group(op.mesh_axis, op.group);
  const std::size_t a = axis(op.axis, in_[0].shape);
  expect(in_[0].shape[a] % op.group == 0, "axis {} of {} does not divide by {}={}", a, in_[0].str(),
         spmd::axis_name(op.mesh_axis), op.group);
  return {in_[0].dtype, in_[0].shape.with(a, in_[0].shape[a] / op.group)};
}

Type Inference::operator()(const AllToAll& op) const {
  arity(1);
  group(op.mesh_axis, op.group);
  const std::size_t split = axis(op.split_axis, in_[0].shape);
  const std::size_t join = axis(op.join_axis, in_[0].shape);
  expect(split != join, "the split and the join axis are both {}", split);
  expect(in_[0].shape[split] % op.group == 0, "axis {} of {} does not divide by {}={}", split,
         in_[0].str(), spmd::axis_name(op.mesh_axis), op.group);
  const Shape cut = in_[0].shape.with(split, in_[0].shape[split] / op.group);
  return {in_[0].dtype, cut.with(join, times(cut[join], op.group))};
}

Type Inference::operator()(const RingShift&) const {
  arity(1);
  return in_[0];
}

Type infer(const Op& op, std::span<const Type> operands, const Graph& graph) {
  const Inference rules(op_name(op), operands, graph);
  const Type type = std::visit(rules, op);
  for (const std::int64_t extent : type.shape.dims()) {
    check(extent > 0, ErrorCode::InvalidArgument, "{}: the result {} is empty", op_name(op),
          type.str());
  }
  return type;
}

}  // namespace difflet::graph
