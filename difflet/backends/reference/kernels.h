// The meaning of each primitive op: naive loops, one rounding to the result's dtype at the end. Sums
// accumulate in f64.
#pragma once

#include <span>

#include "difflet/backends/reference/value.h"

namespace difflet::reference {

// elementwise.cc
Value iota(const graph::Iota& op);
Value unary(graph::UnaryKind kind, const Value& x);
Value binary(graph::BinaryKind kind, const Value& a, const Value& b, const graph::Type& type);
Value compare(graph::CompareKind kind, const Value& a, const Value& b, const graph::Type& type);
Value select(const Value& condition, const Value& a, const Value& b, const graph::Type& type);
Value convert(const Value& x, DType dtype);

// shape.cc
Value reshape(const Value& x, const Shape& shape);
Value transpose(const Value& x, const graph::Dims& permutation, const graph::Type& type);
Value broadcast(const Value& x, const Shape& shape);
Value slice(const Value& x, const graph::Slice& op, const graph::Type& type);
// `extent` elements of `axis` from `start`, which is clamped into range.
Value part(const Value& x, std::int64_t axis, std::int64_t start, std::int64_t extent);
Value concat(std::span<const ValuePtr> parts, std::int64_t axis);
Value pad(const Value& x, const graph::Pad& op, const graph::Type& type);
Value gather(const Value& table, const Value& indices, const graph::Type& type);

// product.cc
Value reduce(graph::ReduceKind kind, const Value& x, const graph::Type& type);
// Elementwise over values of one type.
Value reduce_values(graph::ReduceKind kind, std::span<const ValuePtr> values);
Value argmax(const Value& x, std::int64_t axis, const graph::Type& type);
Value matmul(const Value& a, const Value& b, const graph::Type& type);
Value conv2d(const graph::Conv2d& op, std::span<const ValuePtr> operands, const graph::Type& type);

}  // namespace difflet::reference
