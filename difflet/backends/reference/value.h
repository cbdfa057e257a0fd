// A tensor as the interpreter holds it: floats for the floating-point types, else 64-bit integers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::reference {

struct Value {
  graph::Type type;
  std::vector<float> floats;       // F32, F16, BF16; each exactly a value of the dtype
  std::vector<std::int64_t> ints;  // I32, I64, Bool

  Value() = default;
  explicit Value(const graph::Type& t);  // zeros
  const Shape& shape() const noexcept { return type.shape; }
  bool is_float() const noexcept { return difflet::is_float(type.dtype); }
  std::size_t size() const noexcept { return floats.size() + ints.size(); }
  // Rounds floats to the dtype, wraps I32, and returns itself.
  Value rounded() &&;
};
// Shared by the program, the values computed from it and the ranks of a group.
using ValuePtr = std::shared_ptr<const Value>;

Value from_host(const HostTensor& tensor);
HostTensor to_host(const Value& value);

// Row-major strides, in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);
// Strides that read `shape` as the larger `result` of NumPy broadcasting: 0 where it repeats.
std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& result);
// Offset of each element of `shape`, in row-major order, under other strides.
std::vector<std::int64_t> offsets(const Shape& shape, std::span<const std::int64_t> strides,
                                  std::int64_t start = 0);

// Calls f with each operand's vector of elements: all floats, or all integers.
template <typename F>
void on_elements(const F& f, const Value& x, Value& out) {
  out.is_float() ? f(x.floats, out.floats) : f(x.ints, out.ints);
}

}  // namespace difflet::reference
