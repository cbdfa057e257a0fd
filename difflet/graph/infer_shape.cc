#include "difflet/graph/inference.h"

namespace difflet::graph {

Type Inference::operator()(const Reshape& op) const {
  arity(1);
  expect(in_[0].shape.elements() == op.shape.elements(), "{} does not hold the {} elements of {}",
         op.shape.str(), in_[0].shape.elements(), in_[0].str());
  return {in_[0].dtype, op.shape};
}

Type Inference::operator()(const Transpose& op) const {
  arity(1);
  const Shape& x = in_[0].shape;
  expect(op.permutation.size() == x.rank(), "a permutation of {} axes does not fit {}",
         op.permutation.size(), in_[0].str());
  std::array<bool, Shape::kMaxRank> seen{};
  Dims dims;
  for (const std::int64_t from : op.permutation) {
    const std::size_t a = axis(from, x);
    expect(!seen[a], "axis {} appears twice", a);
    seen[a] = true;
    dims.push_back(x[a]);
  }
  return {in_[0].dtype, shape(dims)};
}

Type Inference::operator()(const Broadcast& op) const {
  arity(1);
  expect(fits(in_[0].shape, op.shape), "{} does not broadcast to {}", in_[0].str(), op.shape.str());
  return {in_[0].dtype, op.shape};
}

Type Inference::operator()(const Slice& op) const {
  arity(1);
  const std::size_t a = axis(op.axis, in_[0].shape);
  expect(op.start >= 0 && op.start < op.limit && op.limit <= in_[0].shape[a] && op.step >= 1,
         "[{}:{}:{}] is not a part of axis {} of {}", op.start, op.limit, op.step, a, in_[0].str());
  return {in_[0].dtype, in_[0].shape.with(a, (op.limit - op.start - 1) / op.step + 1)};
}

Type Inference::operator()(const DynamicSlice& op) const {
  arity(2);
  const std::size_t a = axis(op.axis, in_[0].shape);
  expect(in_[1] == Type{DType::I32, Shape{}}, "the start must be i32[], not {}", in_[1].str());
  expect(op.extent >= 1 && op.extent <= in_[0].shape[a], "{} elements of axis {} of {}", op.extent,
         a, in_[0].str());
  return {in_[0].dtype, in_[0].shape.with(a, op.extent)};
}

Type Inference::operator()(const Concat& op) const {
  expect(!in_.empty(), "takes one operand or more");
  const std::size_t a = axis(op.axis, in_[0].shape);
  std::int64_t extent = 0;
  for (const Type& part : in_) {
    expect(part.dtype == in_[0].dtype, "of mixed dtypes; convert one");
    expect(part.shape.rank() == in_[0].shape.rank() &&
               part.shape.with(a, 1) == in_[0].shape.with(a, 1),
           "{} and {} differ outside axis {}", in_[0].str(), part.str(), a);
    extent = plus(extent, part.shape[a]);
  }
  return {in_[0].dtype, in_[0].shape.with(a, extent)};
}

Type Inference::operator()(const Pad& op) const {
  arity(1);
  const std::size_t a = axis(op.axis, in_[0].shape);
  expect(op.low >= 0 && op.high >= 0, "padding ({}, {}) must not be negative", op.low, op.high);
  expect(in_[0].dtype != DType::Bool, "not defined for bool");
  return {in_[0].dtype, in_[0].shape.with(a, plus(plus(in_[0].shape[a], op.low), op.high))};
}

Type Inference::operator()(const Gather&) const {
  arity(2);
  expect(in_[0].shape.rank() >= 1, "the table must have an axis, not {}", in_[0].str());
  expect(in_[1].dtype == DType::I32, "the indices must be i32, not {}", in_[1].str());
  Dims dims(in_[1].shape.dims().begin(), in_[1].shape.dims().end());
  const auto row = in_[0].shape.dims().subspan(1);
  dims.insert(dims.end(), row.begin(), row.end());
  return {in_[0].dtype, shape(dims)};
}

}  // namespace difflet::graph
