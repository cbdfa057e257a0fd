// The pieces of the text form that more than one file needs.
//
//   graph "name" mesh(dp=1, cfg=1, cp=1, tp=2) {
//     %0 = input() {name="x", shape=[1, 4]} : f32[1, 4]
//     %1 = param "w" aliases("v") f32[8, 4] split(dim=0, axis=tp, segments=[4, 4]) : f32[4, 4]
//     %2 = linear(%0, %1) {act=silu} : f32[1, 4] @ "block.0"
//     return "y"=%2
//   }
//
// Attributes equal to the default of their op are left out. Tensors of few elements show their
// values, f32[2](1, 0.5), others their bytes, f32[64] hex(...).
#pragma once

#include <string>
#include <string_view>

#include "difflet/graph/op.h"

namespace difflet::graph {

std::string quoted(std::string_view text);
// " {key=value, ...}", empty when every attribute has its default.
std::string print_attributes(const Op& op);

}  // namespace difflet::graph
