// Shared by the op surface: adds a node over handles of one graph.
#pragma once

#include <initializer_list>

#include "difflet/ops/tensor.h"

namespace difflet::ops {

// Throws Internal when the operands belong to different graphs.
Tensor add_node(graph::Op op, std::initializer_list<Tensor> operands);
Tensor add_node(graph::Op op, const std::vector<Tensor>& operands);
// A possibly negative axis of `shape`, counted from the front.
std::int64_t axis_of(const Shape& shape, int axis);

}  // namespace difflet::ops
