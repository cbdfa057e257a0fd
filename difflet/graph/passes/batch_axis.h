// Several values of some inputs in one run: a new leading axis for the inputs and what depends on them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

// Each input in `inputs` (by name) gets a leading axis of `extent`, and so do the nodes and outputs that
// depend on one: slice i of such an output is what `graph` computes from slice i of the inputs. Other
// nodes and outputs stay as they are, and composites stay composites. Throws InvalidArgument for an
// unknown name or an extent below 1, Unsupported where cannot_batch() has a reason.
Graph batch_axis(const Graph& graph, std::int64_t extent, std::span<const std::string> inputs);

// Why node `id` has no rule when the operands marked in `batched` (one flag an operand) have the new
// axis: "its weight would differ along the new axis". Nothing when it has one.
std::optional<std::string> cannot_batch(const Graph& graph, NodeId id,
                                        const std::vector<bool>& batched);

}  // namespace difflet::graph::passes
