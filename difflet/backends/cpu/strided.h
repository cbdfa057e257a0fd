// Views of buffers with strides, and the joint collapsing of loops over several views.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "difflet/graph/op.h"
#include "difflet/tensor/shape.h"

namespace difflet::cpu {

using graph::Dims;

// Elements of a buffer; strides and offset count elements, 0 strides broadcast.
struct View {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  DType dtype = DType::F32;
  Shape shape;
  Dims strides;

  std::int64_t inner_stride() const { return strides.empty() ? 1 : strides.back(); }
  // True when the last axis is contiguous (or has one element).
  bool rows_contiguous() const;
  bool contiguous() const;
};

Dims contiguous_strides(const Shape& shape);
// Bytes of the elements that a view names; an axis of stride 0 counts once.
double view_bytes(const View& view);
// Whether two views name the same elements in the same order.
bool same_view(const View& a, const View& b);

// The same elements under another shape, when strides can express it.
std::optional<View> reshaped(const View& view, const Shape& shape);
View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t extent,
            std::int64_t step);
View transposed(const View& view, std::span<const std::int64_t> permutation);
// Leading axes are added and axes of extent 1 repeated, as NumPy broadcasts.
View broadcast_to(const View& view, const Shape& shape);

// A loop nest over several operands of one shape, merged as far as all strides allow: `outer`
// blocks (each with an offset an operand) of `rows` rows (row stride an operand) of `width`
// elements.
struct LoopNest {
  std::int64_t width = 1, rows = 1;
  std::vector<std::int64_t> row_stride;           // [operand]
  std::vector<std::int64_t> step;                 // [operand], stride along the width
  std::vector<std::vector<std::int64_t>> offset;  // [block][operand]
};
enum class Width {
  Merge,     // the width is the longest run that all operands share
  LastAxis,  // the width is the last axis of the shape
};
LoopNest collapse(const Shape& shape, std::span<const View* const> operands, Width width);

}  // namespace difflet::cpu
