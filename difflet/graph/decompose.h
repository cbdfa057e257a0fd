// What each composite op means: its expansion into primitive ops. Reduced-precision operands are
// widened to f32, computed there and rounded once to the result's dtype.
#pragma once

#include <span>

#include "difflet/graph/graph.h"

namespace difflet::graph {

// Adds the expansion of the composite `op` to `to` and returns its result; the type equals
// infer(op, operands). Throws Internal for a primitive.
NodeId decompose(Graph& to, const Op& op, std::span<const NodeId> inputs);

}  // namespace difflet::graph
