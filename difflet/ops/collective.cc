#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {
namespace {

std::int64_t group_size(Tensor x, spmd::Axis axis) { return x.graph->mesh().size(axis); }

}  // namespace

Tensor reduce(Partial p) {
  Tensor sum = p.addend;
  if (group_size(sum, p.mesh_axis) > 1) {
    sum = add_node(graph::AllReduce{p.mesh_axis, graph::ReduceKind::Sum}, {sum});
  }
  return p.bias.graph == nullptr ? sum : sum + convert(p.bias, sum.dtype());
}

std::pair<Tensor, Tensor> reduce(Partial a, Partial b) {
  const Tensor first = reduce(a);
  return {first, reduce(b)};
}

Tensor all_gather(Tensor x, spmd::Axis axis, int dim) {
  const std::int64_t group = group_size(x, axis);
  return group == 1 ? x : add_node(graph::AllGather{axis, axis_of(x.shape(), dim), group}, {x});
}

Tensor all_to_all(Tensor x, spmd::Axis axis, int split_dim, int join_dim) {
  const std::int64_t group = group_size(x, axis);
  return group == 1 ? x
                    : add_node(graph::AllToAll{axis, axis_of(x.shape(), split_dim),
                                               axis_of(x.shape(), join_dim), group},
                               {x});
}

}  // namespace difflet::ops
