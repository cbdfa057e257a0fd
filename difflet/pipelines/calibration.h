// What the layers of a pipeline's components see while prompts are run.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/compile/calibrate.h"
#include "difflet/pipelines/flux_pipeline.h"

namespace difflet::pipelines {

// Eight pictures of different kinds: what is run when no prompts are given.
std::span<const std::string_view> calibration_prompts();

struct CalibrationRun {
  std::vector<std::string> prompts;  // UTF-8, at least one
  // Resolved; each prompt takes the place of its own, with the next seed.
  GenerateRequest request;
  // By component: the weights of its layers that are observed.
  std::map<std::string, std::vector<std::string>, std::less<>> layers;
};

struct Calibration {
  compile::ModelStatistics statistics;
  // By component: inputs of at most eight of its runs, spread over prompts and steps.
  std::map<std::string, std::vector<compile::NamedTensors>, std::less<>> samples;
};

// Encodes and denoises every prompt, and runs the observed components once more on all inputs that they
// had, block by block. These components hold float weights in their folders; `pipeline` may run them
// quantised, to take less memory. `build`: how the observed blocks run. Throws what running throws.
Calibration calibrate(FluxPipeline& pipeline, const CalibrationRun& run,
                      const compile::BuildOptions& build, Context& context, Observer& observer);

}  // namespace difflet::pipelines
