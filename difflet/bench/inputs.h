// Inputs of one component, the same for every engine.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "difflet/base/log.h"
#include "difflet/bench/scenario.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::bench {

// Named as the arguments of the original module's forward: floats in F32 (noise from the scenario's
// seed; positions as the pipeline makes them), ids in I32. `model` is the pipeline's folder. Throws
// what opening the component throws, and Unsupported for a size that it cannot have.
std::map<std::string, HostTensor> component_inputs(const Scenario& scenario,
                                                   const std::filesystem::path& model, Log& log);

}  // namespace difflet::bench
