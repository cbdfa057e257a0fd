#include <algorithm>

#include "difflet/backends/reference/kernels.h"
#include "difflet/base/error.h"

namespace difflet::reference {
namespace {

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

// The elements of x at the offsets that `strides` give to the elements of `type`.
Value read(const Value& x, const graph::Type& type, std::span<const std::int64_t> strides,
           std::int64_t start = 0) {
  Value out(type);
  const auto from = offsets(type.shape, strides, start);
  on_elements(
      [&](const auto& values, auto& to) {
        for (std::size_t i = 0; i < to.size(); ++i) {
          to[i] = values[at(from[i])];
        }
      },
      x, out);
  return out;
}

// Writes x into the elements of `out` that start at `start` and have out's strides.
void write(const Value& x, Value& out, std::int64_t start) {
  const auto to = offsets(x.shape(), strides_of(out.shape()), start);
  on_elements(
      [&](const auto& values, auto& elements) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          elements[at(to[i])] = values[i];
        }
      },
      x, out);
}

}  // namespace

Value reshape(const Value& x, const Shape& shape) {
  Value out = x;
  out.type.shape = shape;
  return out;
}

Value transpose(const Value& x, const graph::Dims& permutation, const graph::Type& type) {
  const auto own = strides_of(x.shape());
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : permutation) {
    strides.push_back(own[at(axis)]);
  }
  return read(x, type, strides);
}

Value broadcast(const Value& x, const Shape& shape) {
  return read(x, {x.type.dtype, shape}, broadcast_strides(x.shape(), shape));
}

Value slice(const Value& x, const graph::Slice& op, const graph::Type& type) {
  auto strides = strides_of(x.shape());
  const std::int64_t start = op.start * strides[at(op.axis)];
  strides[at(op.axis)] *= op.step;
  return read(x, type, strides, start);
}

Value part(const Value& x, std::int64_t axis, std::int64_t start, std::int64_t extent) {
  const auto strides = strides_of(x.shape());
  const std::int64_t first = std::clamp<std::int64_t>(start, 0, x.shape()[at(axis)] - extent);
  return read(x, {x.type.dtype, x.shape().with(at(axis), extent)}, strides,
              first * strides[at(axis)]);
}

Value concat(std::span<const ValuePtr> parts, std::int64_t axis) {
  std::int64_t extent = 0;
  for (const ValuePtr& p : parts) {
    extent += p->shape()[at(axis)];
  }
  Value out({parts[0]->type.dtype, parts[0]->shape().with(at(axis), extent)});
  const std::int64_t stride = strides_of(out.shape())[at(axis)];
  std::int64_t start = 0;
  for (const ValuePtr& p : parts) {
    write(*p, out, start * stride);
    start += p->shape()[at(axis)];
  }
  return out;
}

Value pad(const Value& x, const graph::Pad& op, const graph::Type& type) {
  Value out(type);
  std::ranges::fill(out.floats, static_cast<float>(op.value));
  std::ranges::fill(out.ints, static_cast<std::int64_t>(op.value));
  out = std::move(out).rounded();
  write(x, out, op.low * strides_of(type.shape)[at(op.axis)]);
  return out;
}

Value gather(const Value& table, const Value& indices, const graph::Type& type) {
  Value out(type);
  const std::int64_t rows = table.shape()[0];
  const std::int64_t width = table.shape().elements() / rows;
  on_elements(
      [&](const auto& from, auto& to) {
        for (std::size_t i = 0; i < indices.ints.size(); ++i) {
          const std::int64_t row = indices.ints[i];
          check(row >= 0 && row < rows, ErrorCode::InvalidArgument,
                "gather: index {} at element {} is outside the table of {} rows", row, i, rows);
          std::copy_n(from.begin() + row * width, width,
                      to.begin() + static_cast<std::int64_t>(i) * width);
        }
      },
      table, out);
  return out;
}

}  // namespace difflet::reference
