// A component that quantize gives int8 weights, and what it tells of one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/compile/component.h"
#include "difflet/compile/quantized_weights.h"
#include "difflet/compile/staged.h"
#include "difflet/compile/write_quantised.h"
#include "difflet/graph/graph.h"

namespace difflet::cli {

// A component that gets int8 weights.
struct QuantisedPart {
  std::string name;    // in messages and statistics
  std::string folder;  // below the model; "" is the model's own
  const compile::ComponentFolder* source = nullptr;
  std::optional<graph::Graph> graph;  // of floats; without one nothing is run
  compile::ComponentQuant quant;
  compile::SmoothVectors smooth;
  std::vector<compile::NamedTensors> samples;
  std::map<std::string, double> worst;  // by group: the largest relative error that was measured
};

// The event "component" of --json.
Json as_json(const QuantisedPart& part);
// Groups with their sizes and largest errors, and the layers that keep their weights, on stdout.
void print_part(const QuantisedPart& part);

}  // namespace difflet::cli
