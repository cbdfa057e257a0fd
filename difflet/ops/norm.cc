#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {

Tensor layer_norm(Tensor x, double eps) { return add_node(graph::LayerNorm{.eps = eps}, {x}); }

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps) {
  return add_node(graph::LayerNorm{.eps = eps, .affine = true}, {x, weight, bias});
}

Tensor rms_norm(Tensor x, double eps) {
  return add_node(graph::RmsNorm{.eps = eps, .weight = false}, {x});
}

Tensor rms_norm(Tensor x, Tensor weight, double eps) {
  return add_node(graph::RmsNorm{.eps = eps, .weight = true}, {x, weight});
}

Tensor group_norm(Tensor x, Tensor weight, Tensor bias, std::int64_t groups, double eps) {
  return add_node(graph::GroupNorm{.groups = groups, .eps = eps}, {x, weight, bias});
}

Tensor group_statistics(Tensor x, std::int64_t groups) {
  return add_node(graph::GroupStatistics{.groups = groups}, {x});
}

Tensor softmax(Tensor x) { return add_node(graph::Softmax{}, {x}); }

}  // namespace difflet::ops
