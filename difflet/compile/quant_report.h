// What int8 weights cost: each layer's error on real activations, and that of all layers together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/compile/staged.h"
#include "difflet/graph/passes/quantize_linear.h"
#include "difflet/tensor/compare.h"

namespace difflet::compile {

// Largest relative error that a layer may have before it is better kept as it was.
double layer_bound(graph::WeightQuant mode);

// A quantised component and what it is measured on.
struct QuantMeasurement {
  const graph::Graph* graph = nullptr;  // unquantised, as traced
  const graph::passes::LinearQuantPlan* plan = nullptr;
  // Gives both forms of each planned weight: as traced, and int8 with its vectors.
  const runtime::WeightSource* weights = nullptr;
  std::span<const NamedTensors>
      samples;  // all inputs of the graph, once for each run; at least one
  const runtime::Backend* backend = nullptr;
  runtime::BackendOptions options;
};

struct LayerError {
  std::string weight;
  graph::passes::LinearQuant quant;
  // ||quantised - unquantised|| / ||unquantised|| of the layer's results over all samples, each on the
  // unquantised graph's x. Infinite where a result is not finite, 0 where all are zero.
  double relative = 0;

  bool within_bound() const { return relative <= layer_bound(quant.mode); }
};

// Measures each layer of the plan, told in order of execution. One segment of the graph
// (graph/passes/extract.h) is loaded at a time. Throws what loading throws, and InvalidArgument for
// samples that do not fit or a plan that names no layer of the graph.
void measure_layers(const QuantMeasurement& what, Context& context,
                    const std::function<void(const LayerError&)>& report);

// The quantised graph's output against the unquantised one's, over all samples.
struct OutputError {
  std::string block;   // the segment that makes it
  std::string output;  // name
  double relative = 0, cosine = 1;
  std::int64_t non_finite = 0;
};

// Runs both forms of the component and tells each output of each segment, the last ones being the
// component's own: how the error grows from block to block. One segment at a time; throws as above.
void measure_outputs(const QuantMeasurement& what, Context& context,
                     const std::function<void(const OutputError&)>& report);

}  // namespace difflet::compile
