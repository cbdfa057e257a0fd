#include "difflet/backends/cpu/strided.h"

#include "difflet/base/error.h"

namespace difflet::cpu {

bool View::rows_contiguous() const {
  return shape.rank() == 0 || shape[shape.rank() - 1] <= 1 || strides.back() == 1;
}

bool View::contiguous() const {
  if (shape.elements() == 0) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

Dims contiguous_strides(const Shape& shape) {
  Dims strides(shape.rank());
  std::int64_t stride = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::optional<View> reshaped(const View& view, const Shape& shape) {
  View result = view;
  result.shape = shape;
  if (view.contiguous()) {
    result.strides = contiguous_strides(shape);
    return result;
  }
  // Walk both shapes from the right: each group of new axes must cover a run of old axes that is
  // contiguous within itself.
  result.strides.assign(shape.rank(), 0);
  std::size_t old_axis = view.shape.rank();
  std::size_t new_axis = shape.rank();
  while (new_axis > 0 || old_axis > 0) {
    std::int64_t old_extent = 1;
    std::int64_t new_extent = 1;
    std::int64_t stride = 0;
    bool first = true;
    const std::size_t new_end = new_axis;
    do {
      if (new_extent <= old_extent && new_axis > 0) {
        new_extent *= shape[--new_axis];
      } else if (old_axis > 0) {
        --old_axis;
        if (view.shape[old_axis] == 1) {
          continue;
        }
        if (first) {
          stride = view.strides[old_axis];
          first = false;
        } else if (view.strides[old_axis] != stride * old_extent) {
          return std::nullopt;
        }
        old_extent *= view.shape[old_axis];
      } else {
        break;
      }
    } while (old_extent != new_extent);
    std::int64_t s = stride;
    for (std::size_t i = new_end; i-- > new_axis;) {
      result.strides[i] = s;
      s *= shape[i];
    }
  }
  return result;
}

View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t extent,
            std::int64_t step) {
  View result = view;
  result.offset += start * view.strides[axis];
  result.shape = view.shape.with(axis, extent);
  result.strides[axis] *= step;
  return result;
}

View transposed(const View& view, std::span<const std::int64_t> permutation) {
  View result = view;
  Dims dims(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto from = static_cast<std::size_t>(permutation[i]);
    dims[i] = view.shape[from];
    result.strides[i] = view.strides[from];
  }
  result.shape = Shape(dims);
  return result;
}

View broadcast_to(const View& view, const Shape& shape) {
  require(shape.rank() >= view.shape.rank(), "broadcast_to: rank shrinks");
  View result = view;
  result.shape = shape;
  result.strides.assign(shape.rank(), 0);
  const std::size_t lead = shape.rank() - view.shape.rank();
  for (std::size_t i = 0; i < view.shape.rank(); ++i) {
    result.strides[lead + i] = view.shape[i] == 1 ? 0 : view.strides[i];
  }
  return result;
}

namespace {

// Each costs about 60 bytes; real programs have thousands.
constexpr std::int64_t kMaxBlocks = 1 << 22;

struct MergedAxis {
  std::int64_t extent = 1;
  std::vector<std::int64_t> stride;  // [operand]
};

// Axes of extent 1 dropped, neighbours merged where every operand's strides chain.
std::vector<MergedAxis> merge_axes(const Shape& shape, std::span<const View* const> operands,
                                   std::size_t first, std::size_t last) {
  std::vector<MergedAxis> axes;
  for (std::size_t i = first; i < last; ++i) {
    if (shape[i] == 1) {
      continue;
    }
    MergedAxis axis{.extent = shape[i], .stride = {}};
    for (const View* v : operands) {
      axis.stride.push_back(v->strides[i]);
    }
    if (!axes.empty()) {
      MergedAxis& outer = axes.back();
      bool chains = true;
      for (std::size_t o = 0; o < operands.size(); ++o) {
        chains = chains && outer.stride[o] == axis.stride[o] * axis.extent;
      }
      if (chains) {
        outer.extent *= axis.extent;
        outer.stride = axis.stride;
        continue;
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

void enumerate_blocks(std::span<const MergedAxis> axes, std::vector<std::int64_t> offset,
                      std::vector<std::vector<std::int64_t>>& blocks) {
  if (axes.empty()) {
    blocks.push_back(std::move(offset));
    return;
  }
  for (std::int64_t i = 0; i < axes[0].extent; ++i) {
    enumerate_blocks(axes.subspan(1), offset, blocks);
    for (std::size_t o = 0; o < offset.size(); ++o) {
      offset[o] += axes[0].stride[o];
    }
  }
}

}  // namespace

LoopNest collapse(const Shape& shape, std::span<const View* const> operands, Width width) {
  LoopNest nest;
  const std::size_t rank = shape.rank();
  const std::size_t row_axes = width == Width::LastAxis && rank > 0 ? rank - 1 : rank;
  std::vector<MergedAxis> axes = merge_axes(shape, operands, 0, row_axes);
  const std::vector<std::int64_t> zero(operands.size(), 0);
  nest.step.assign(operands.size(), 1);
  nest.row_stride = zero;
  if (width == Width::LastAxis && rank > 0) {
    nest.width = shape[rank - 1];
    for (std::size_t o = 0; o < operands.size(); ++o) {
      nest.step[o] = operands[o]->strides[rank - 1];
    }
  } else if (!axes.empty()) {
    nest.width = axes.back().extent;
    nest.step = axes.back().stride;
    axes.pop_back();
  }
  if (!axes.empty()) {
    nest.rows = axes.back().extent;
    nest.row_stride = axes.back().stride;
    axes.pop_back();
  }
  std::vector<std::int64_t> start;
  for (const View* v : operands) {
    start.push_back(v->offset);
  }
  if (shape.elements() > 0) {
    std::int64_t blocks = 1;
    for (const MergedAxis& axis : axes) {
      blocks *= axis.extent;
    }
    if (blocks > kMaxBlocks) {
      fail(ErrorCode::Unsupported, "a copy of {} in {} blocks", shape.str(), blocks);
    }
    nest.offset.reserve(static_cast<std::size_t>(blocks));
    enumerate_blocks(axes, std::move(start), nest.offset);
  }
  return nest;
}

double view_bytes(const View& v) {
  auto elements = static_cast<double>(dtype_bytes(v.dtype));
  for (std::size_t i = 0; i < v.strides.size(); ++i) {
    elements *= v.strides[i] == 0 ? 1.0 : static_cast<double>(v.shape[i]);
  }
  return elements;
}

bool same_view(const View& a, const View& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape &&
         a.strides == b.strides;
}

}  // namespace difflet::cpu
