#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/writable.h"
#include "difflet/compile/component.h"
#include "difflet/io/safetensors.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::cli {
namespace {

struct Timing {
  double load_s = 0;
  std::vector<Clock> runs;  // duration of each
};

models::ShapeMap shapes_of(const compile::NamedTensors& tensors) {
  models::ShapeMap shapes;
  for (const auto& [name, tensor] : tensors) {
    shapes.emplace(name, tensor.shape());
  }
  return shapes;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// What the first run takes beyond the usual one is loading: pages touched, caches filled.
double total_load(const Timing& timing) {
  std::vector<double> walls;
  walls.reserve(timing.runs.size());
  for (const Clock& run : timing.runs) {
    walls.push_back(run.wall_s);
  }
  return timing.load_s + std::max(0.0, walls.front() - median(walls));
}

Json as_json(const Timing& timing) {
  Json runs = Json::array();
  for (const Clock& run : timing.runs) {
    runs.push_back({{"wall_s", run.wall_s}, {"cpu_s", run.cpu_s}});
  }
  return {{"load_s", total_load(timing)}, {"runs", runs}, {"peak_rss_bytes", peak_memory()}};
}

std::map<std::string, HostTensor> as_f32(const compile::NamedTensors& outputs) {
  std::map<std::string, HostTensor> stored;
  for (const auto& [name, tensor] : outputs) {
    stored.emplace(name, is_float(tensor.dtype()) ? tensor.to(DType::F32) : tensor);
  }
  return stored;
}

}  // namespace

void run_eval(const OptionValues& options) {
  const Clock start = Clock::now();
  auto starting = start_threads(options);
  Log log(log_level(options));
  const compile::BuildOptions build = build_options(options);
  const std::filesystem::path output = options.text("output");
  check_writable(output);
  const auto place = pipelines::find_component(model_folder(options), options.text("component"));
  auto folder =
      compile::ComponentFolder::open(place.folder, place.class_name, options.text("variant"), log);
  compile::quantise(std::array{&folder}, build.quant);
  check_replaces_no_input("output", output, place.folder);
  check_replaces_no_input("output", output, options.text("inputs"));
  check_picture_limit(options, folder);
  const compile::NamedTensors inputs = read_inputs(options.text("inputs"));

  const std::unique_ptr<ThreadPool> threads = starting.get();
  Timings timings;
  Context context{.log = log, .threads = *threads, .timings = &timings};
  context.record("open", Clock::now().wall_s - start.wall_s);
  compile::ArtifactUse use = artifact_use(options);
  use.expected_runs = options.integer("repeat");
  const compile::Prepared prepared(component_name(options, folder), folder, {shapes_of(inputs)}, 0,
                                   build, use, context);
  tell_artifacts(options, use, {&prepared});
  const auto weights = folder.weights(*threads, [] { check_stop(); });
  const auto executable = prepared.load(*weights);
  Timing timing{.load_s = Clock::now().wall_s - start.wall_s, .runs = {}};
  compile::NamedTensors outputs;
  for (std::int64_t i = 0; i < options.integer("repeat"); ++i) {
    check_stop();
    const Clock before = Clock::now();
    outputs = executable->run(inputs);
    const Clock after = Clock::now();
    timing.runs.push_back({after.wall_s - before.wall_s, after.cpu_s - before.cpu_s});
  }
  io::write_safetensors(output, as_f32(outputs));
  context.record("first run", timing.runs.front().wall_s);
  if (options.flag("timings")) {
    print_timings(timings);
  }
  if (options.flag("json")) {
    print(as_json(timing).dump() + "\n");
  }
}

}  // namespace difflet::cli
