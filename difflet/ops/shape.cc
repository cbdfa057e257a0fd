#include "difflet/base/error.h"
#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {

Tensor reshape(Tensor x, const Shape& shape) {
  return x.shape() == shape ? x : add_node(graph::Reshape{shape}, {x});
}

Tensor reshape(Tensor x, std::initializer_list<std::int64_t> dims) {
  std::vector<std::int64_t> known(dims);
  std::int64_t* free = nullptr;
  std::int64_t product = 1;
  for (std::int64_t& extent : known) {
    if (extent == -1) {
      check(free == nullptr, ErrorCode::InvalidArgument, "reshape of {}: two extents are -1",
            x.type().str());
      free = &extent;
    } else {
      product *= extent;
    }
  }
  if (free != nullptr) {
    check(product > 0 && x.shape().elements() % product == 0, ErrorCode::InvalidArgument,
          "reshape of {}: {} does not divide its elements", x.type().str(), product);
    *free = x.shape().elements() / product;
  }
  return reshape(x, Shape(std::span<const std::int64_t>(known)));
}

Tensor transpose(Tensor x, const std::vector<int>& permutation) {
  graph::Transpose op;
  for (const int axis : permutation) {
    op.permutation.push_back(axis_of(x.shape(), axis));
  }
  return add_node(std::move(op), {x});
}

Tensor broadcast(Tensor x, const Shape& shape) {
  return x.shape() == shape ? x : add_node(graph::Broadcast{shape}, {x});
}

Tensor unsqueeze(Tensor x, int axis) {
  std::vector<std::int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
  const int rank = static_cast<int>(dims.size());
  check(axis >= -rank - 1 && axis <= rank, ErrorCode::InvalidArgument,
        "unsqueeze: {} is not a place for a new axis of {}", axis, x.type().str());
  dims.insert(dims.begin() + (axis < 0 ? axis + rank + 1 : axis), 1);
  return reshape(x, Shape(std::span<const std::int64_t>(dims)));
}

Tensor slice(Tensor x, int axis, std::int64_t start, std::int64_t limit, std::int64_t step) {
  if (start == 0 && step == 1 && limit == x.dim(axis)) {
    return x;
  }
  return add_node(graph::Slice{axis_of(x.shape(), axis), start, limit, step}, {x});
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require(!parts.empty(), "concat: takes one operand or more");
  return parts.size() == 1 ? parts.front()
                           : add_node(graph::Concat{axis_of(parts.front().shape(), axis)}, parts);
}

Tensor pad(Tensor x, int axis, std::int64_t low, std::int64_t high, double value) {
  return add_node(graph::Pad{axis_of(x.shape(), axis), low, high, value}, {x});
}

std::vector<Tensor> split(Tensor x, const std::vector<std::int64_t>& extents, int axis) {
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t extent : extents) {
    parts.push_back(slice(x, axis, start, start + extent));
    start += extent;
  }
  check(start == x.dim(axis), ErrorCode::InvalidArgument,
        "split: the extents sum to {}, but axis {} of {} has {}", start, axis, x.type().str(),
        x.dim(axis));
  return parts;
}

Tensor split_heads(Tensor x, std::int64_t heads) {
  const Shape& s = x.shape();
  check(s.rank() == 3 && heads > 0 && s[2] % heads == 0, ErrorCode::InvalidArgument,
        "split_heads: {} does not split into {} heads", x.type().str(), heads);
  return reshape(x, Shape{s[0], s[1], heads, s[2] / heads});
}

Tensor merge_heads(Tensor x) {
  const Shape& s = x.shape();
  check(s.rank() == 4, ErrorCode::InvalidArgument, "merge_heads: {} is not [B, L, H, d]",
        x.type().str());
  return reshape(x, Shape{s[0], s[1], s[2] * s[3]});
}

Tensor gather(Tensor table, Tensor indices) { return add_node(graph::Gather{}, {table, indices}); }

}  // namespace difflet::ops
