#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {

Tensor reduce(graph::ReduceKind kind, Tensor x, const std::vector<int>& axes) {
  graph::Reduce op{kind, {}};
  for (const int axis : axes) {
    op.axes.push_back(axis_of(x.shape(), axis));
  }
  std::ranges::sort(op.axes);
  return add_node(std::move(op), {x});
}

Tensor argmax(Tensor x, int axis) { return add_node(graph::ArgMax{axis_of(x.shape(), axis)}, {x}); }

Tensor matmul(Tensor a, Tensor b) { return add_node(graph::MatMul{}, {a, b}); }

Tensor linear(Tensor x, Tensor weight) { return add_node(graph::Linear{}, {x, weight}); }

Tensor linear(Tensor x, Tensor weight, Tensor bias) {
  return add_node(graph::Linear{.bias = true}, {x, weight, bias});
}

Tensor conv2d(Tensor x, Tensor weight, Tensor bias, const ConvOptions& options) {
  const auto side = [&](std::int64_t own) { return own < 0 ? options.pad : own; };
  graph::Conv2d op{.stride = options.stride,
                   .pad_top = side(options.pad_top),
                   .pad_bottom = side(options.pad_bottom),
                   .pad_left = side(options.pad_left),
                   .pad_right = side(options.pad_right),
                   .groups = options.groups,
                   .bias = bias.graph != nullptr};
  return op.bias ? add_node(op, {x, weight, bias}) : add_node(op, {x, weight});
}

Tensor upsample(Tensor x, std::int64_t factor) {
  return factor == 1 ? x : add_node(graph::Upsample{factor}, {x});
}

}  // namespace difflet::ops
