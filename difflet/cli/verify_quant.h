// difflet verify --quant: what int8 weights cost.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/base/options.h"
#include "difflet/compile/component.h"
#include "difflet/compile/prepared.h"
#include "difflet/compile/staged.h"

namespace difflet::cli {

// Whether the options ask for it; else throws InvalidArgument for an option that only it has.
bool verifies_quant(const OptionValues& options);
void run_verify_quant(const OptionValues& options);

// One component in both forms.
struct QuantPair {
  std::string name;
  const compile::ComponentFolder* plain = nullptr;      // float weights
  const compile::ComponentFolder* quantised = nullptr;  // may be the same
  models::ShapeMap shapes;
};

// What was found of one component's layers.
struct LayersFound {
  std::int64_t layers = 0;
  std::int64_t over_bound = 0;
};

// Measures and prints each layer.
LayersFound print_layers(const OptionValues& options, const QuantPair& pair,
                         std::span<const compile::NamedTensors> samples,
                         const compile::BuildOptions& build, Context& context);
// Runs both forms on one sample and prints the outputs of each block. Returns the least cosine among
// the component's own outputs.
double print_outputs(const OptionValues& options, const QuantPair& pair,
                     const compile::NamedTensors& sample, const compile::BuildOptions& build,
                     Context& context);

// The bounds' defaults go by the coarsest mode in use.
compile::WeightQuant coarsest_mode(std::span<const QuantPair> pairs);
// --least-cosine, else what holds for the mode.
double least_cosine(const OptionValues& options, compile::WeightQuant mode);
double least_psnr(const OptionValues& options, compile::WeightQuant mode);

}  // namespace difflet::cli
