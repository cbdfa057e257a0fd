// A backend compared with the reference, block by block, on the reference's own values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/compile/staged.h"
#include "difflet/tensor/compare.h"

namespace difflet::compile {

// One result of a block.
struct BlockDifference {
  std::string block, output;
  graph::Type type;
  Difference difference;    // of the backend's from the reference's
  double largest = 0;       // magnitude in the reference's
  std::string worst_index;  // "[0, 17, 3]"

  double relative_to_largest() const {
    return largest > 0 ? difference.max_abs / largest : difference.max_abs;
  }
};

// Runs each segment of the graph (graph/passes/extract.h) on both with the values that the reference
// made before it, and tells `report` each result. Weights are loaded one segment at a time. Throws what
// loading throws, and InvalidArgument for inputs that do not fit.
void verify_blocks(const graph::Graph& graph, const NamedTensors& inputs,
                   const runtime::WeightSource& weights, const runtime::Backend& reference,
                   const runtime::Backend& backend, const runtime::BackendOptions& options,
                   Context& context, const std::function<void(const BlockDifference&)>& report);

// Noise of a fixed seed for every input: floats uniform in [0, 1) around 0.5 for scalars per item
// (timesteps), in [-1, 1) else; integers 0 ... 7.
NamedTensors noise_inputs(const graph::Graph& graph);
NamedTensors noise_inputs(const std::vector<runtime::Port>& ports);

}  // namespace difflet::compile
