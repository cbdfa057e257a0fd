#include "difflet/pipelines/calibration.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/error_context.h"
#include "difflet/pipelines/input_recorder.h"

namespace difflet::pipelines {
namespace {

constexpr std::int64_t kRecorded = 32;  // runs of the denoiser whose inputs are held at once
constexpr std::int64_t kSamples = 8;

// A component that is observed.
struct Observed {
  const Resident* component = nullptr;
  std::span<const std::string> layers;
  graph::Graph graph;
  std::int64_t runs = 0;    // so far
  std::int64_t stride = 0;  // each so many-th run is kept as a sample; 0: not known yet
};

std::vector<Observed> observed_components(const FluxPipeline& pipeline, const CalibrationRun& run,
                                          DType dtype) {
  std::vector<Observed> observed;
  for (const Resident* component : pipeline.components()) {
    const auto found = run.layers.find(component->name());
    if (found == run.layers.end()) {
      continue;
    }
    const models::ShapeMap shapes =
        flux_shapes(component->folder().model(), pipeline.program_size(run.request));
    observed.push_back({.component = component,
                        .layers = found->second,
                        .graph = component->folder().trace_float(shapes, dtype)});
  }
  return observed;
}

// Adds what the recorded runs of one component show.
void add(Observed& observed, std::span<const compile::NamedTensors> runs,
         const compile::BuildOptions& build, Context& context, Observer& observer,
         Calibration& calibration) {
  const compile::ComponentFolder& folder = observed.component->folder();
  const std::string& name = observed.component->name();
  const compile::CheckpointWeights weights(folder.checkpoint(),
                                           [&observer] { observer.check_stop(); });
  compile::Statistics& statistics = calibration.statistics[name];
  statistics.class_name = folder.class_name();
  const Stopwatch watch;
  const auto path = [&] { return folder.path().string(); };
  with_context(ErrorCode::DataLoss, path, [&] {
    compile::observe({.graph = &observed.graph,
                      .layers = observed.layers,
                      .weights = &weights,
                      .samples = runs,
                      .backend = build.backend,
                      .options = build.backend_options},
                     context, statistics.layers, [&](const std::string& segment) {
                       observer.check_stop();
                       observer.stage_begin(fmt::format("observe {}: {}", name, segment));
                     });
  });
  observer.stage_end(fmt::format("observe {}", name), watch.seconds());
  for (const compile::NamedTensors& inputs : runs) {
    if (observed.runs++ % observed.stride == 0) {
      calibration.samples[name].push_back(inputs);
    }
  }
}

}  // namespace

std::span<const std::string_view> calibration_prompts() {
  static constexpr std::array<std::string_view, 8> kPrompts{
      "a portrait of an old fisherman with a grey beard, soft window light",
      "a wide mountain valley at sunrise, fog over a river, photograph",
      "a red bicycle leaning against a white wall",
      "a bowl of ramen with egg and spring onions, seen from above",
      "an isometric drawing of a small workshop full of tools, flat colours",
      "a street at night in the rain, neon signs that read \"OPEN\"",
      "an oil painting of a sailing ship in a storm",
      "a macro photograph of a green beetle on a leaf, black background",
  };
  return kPrompts;
}

Calibration calibrate(FluxPipeline& pipeline, const CalibrationRun& run,
                      const compile::BuildOptions& build, Context& context, Observer& observer) {
  require(!run.prompts.empty(), "calibration without a prompt");
  std::vector<Observed> observed = observed_components(pipeline, run, build.dtype);
  std::set<std::string, std::less<>> names;
  for (const Observed& one : observed) {
    names.insert(one.component->name());
  }
  const auto prompts = static_cast<std::int64_t>(run.prompts.size());
  const std::int64_t chunk = std::max<std::int64_t>(1, kRecorded / run.request.steps);
  Calibration calibration;
  for (std::int64_t begin = 0; begin < prompts; begin += chunk) {
    InputRecorder recorder(names, run.request.steps, run.request.steps, observer);
    const std::int64_t end = std::min(prompts, begin + chunk);
    for (std::int64_t i = begin; i < end; ++i) {
      GenerateRequest request = run.request;
      request.prompt = run.prompts[static_cast<std::size_t>(i)];
      request.seed += static_cast<std::uint64_t>(i);
      recorder.begin_request(true);
      (void)pipeline.latents(request, recorder);
    }
    for (Observed& one : observed) {
      const auto runs = recorder.inputs().find(one.component->name());
      require(runs != recorder.inputs().end(), "a component that prompts do not run");
      if (one.stride == 0) {  // an encoder runs once a prompt, the denoiser once a step
        const auto each = static_cast<std::int64_t>(runs->second.size()) / (end - begin);
        one.stride = (prompts * each + kSamples - 1) / kSamples;
      }
      add(one, runs->second, build, context, observer, calibration);
    }
  }
  return calibration;
}

}  // namespace difflet::pipelines
