#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/base/units.h"
#include "difflet/base/version.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/writable.h"
#include "difflet/io/image.h"
#include "difflet/pipelines/flux_pipeline.h"
#include "difflet/text/unicode.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;
using pipelines::GenerateRequest;

GenerateRequest read_request(const OptionValues& options) {
  return {.prompt = options.text("prompt"),
          .negative_prompt = options.optional_text("negative-prompt"),
          .width = options.optional_integer("width"),
          .height = options.optional_integer("height"),
          .n = options.integer("n"),
          .steps = options.integer("steps"),
          .guidance = options.number("guidance"),
          .true_cfg_scale = options.number("true-cfg-scale"),
          .seed = options.seed("seed"),
          .max_sequence_length = options.integer("max-sequence-length")};
}

// x.png for one picture, x-0.png, x-1.png ... for more.
fs::path output_path(const fs::path& output, std::int64_t index, std::int64_t n) {
  if (n == 1) {
    return output;
  }
  fs::path path = output;
  path.replace_filename(
      fmt::format("{}-{}{}", output.stem().string(), index, output.extension().string()));
  return path;
}

void warn_ignored(const OptionValues& options, const GenerateRequest& request,
                  const pipelines::FluxPipeline& pipeline, Log& log) {
  if (request.negative_prompt && !request.uses_true_cfg()) {
    log.warn("--negative-prompt counts only with a --true-cfg-scale above 1; it is ignored");
  }
  if (!request.negative_prompt && request.true_cfg_scale > 1) {
    log.warn(
        "--true-cfg-scale counts only with a --negative-prompt (it may be empty); it is ignored");
  }
  if (options.given("guidance") && !pipeline.uses_guidance()) {
    log.warn("this model has no guidance input; --guidance is ignored");
  }
}

// The name of the checkpoint's folder, for a text that must be UTF-8: names of files need not be.
std::string model_name(const fs::path& model) {
  std::error_code error;
  const fs::path whole = fs::canonical(model, error);
  return text::repair_utf8((error ? model : whole).filename().string());
}

// What is embedded in picture `index`: enough to make it again.
std::map<std::string, std::string> describe(const OptionValues& options,
                                            const GenerateRequest& request,
                                            const pipelines::FluxPipeline& pipeline,
                                            std::int64_t index) {
  std::map<std::string, std::string> text{
      {"prompt", request.prompt},
      {"seed", fmt::format("{}", request.seed)},
      {"steps", fmt::format("{}", request.steps)},
      {"size", fmt::format("{}x{}", *request.width, *request.height)},
      {"max_sequence_length", fmt::format("{}", request.max_sequence_length)},
      {"dtype", options.text("dtype")},
      {"model", model_name(options.text("model"))},
      {"software", fmt::format("difflet {}", kVersion)},
  };
  std::vector<std::string> quantised;
  for (const pipelines::Resident* component : pipeline.components()) {
    if (const std::string quant = component->folder().quant().label(); !quant.empty()) {
      quantised.push_back(fmt::format("{} {}", component->name(), quant));
    }
  }
  if (!quantised.empty()) {
    text["quant"] = fmt::format("{}", fmt::join(quantised, "; "));
  }
  if (request.n > 1) {
    text["picture"] = fmt::format("{} of {} drawn with this seed", index, request.n);
  }
  if (pipeline.uses_guidance()) {
    text["guidance"] = fmt::format("{}", request.guidance);
  }
  if (request.uses_true_cfg()) {
    text["negative_prompt"] = *request.negative_prompt;
    text["true_cfg_scale"] = fmt::format("{}", request.true_cfg_scale);
  }
  return text;
}

// Every file can be written, and no two names are links to the same one.
void check_outputs(const fs::path& output, std::int64_t n) {
  std::set<fs::path> targets;
  for (std::int64_t i = 0; i < n; ++i) {
    const fs::path path = output_path(output, i, n);
    check_writable(path);
    check(targets.insert(write_target(path)).second, ErrorCode::InvalidArgument,
          "cannot write '{}': another picture goes to the same file", path.string());
  }
}

void print_start(const OptionValues& options, const GenerateRequest& request,
                 const std::vector<pipelines::ComponentMemory>& memory,
                 const std::vector<const compile::Prepared*>& prepared, const std::string& backend,
                 int threads) {
  if (options.flag("json")) {
    Json artifacts = Json::object();
    for (const compile::Prepared* component : prepared) {
      artifacts[component->name()] =
          component->artifact() ? Json(component->artifact()->key()) : Json();
    }
    Json planned = Json::object();
    for (const auto& component : memory) {
      planned[component.name] = component.bytes;
    }
    print_event({{"event", "start"},
                 {"version", kVersion},
                 {"backend", backend},
                 {"threads", threads},
                 {"width", *request.width},
                 {"height", *request.height},
                 {"n", request.n},
                 {"steps", request.steps},
                 {"seed", request.seed},
                 {"planned_bytes", planned},
                 {"artifacts", artifacts}});
  } else if (!options.flag("quiet")) {
    print_message(fmt::format("{}, {} thread{}\n", backend, threads, threads == 1 ? "" : "s"));
  }
}

// All of them or none.
void write_images(const OptionValues& options, const GenerateRequest& request,
                  const pipelines::FluxPipeline& pipeline, const std::vector<io::Image>& images) {
  const fs::path output = options.text("output");
  std::vector<fs::path> paths;
  std::vector<StagedFile> staged;
  for (std::size_t i = 0; i < images.size(); ++i) {
    check_stop();
    const auto index = static_cast<std::int64_t>(i);
    paths.push_back(output_path(output, index, request.n));
    const std::vector<std::uint8_t> bytes = io::encode_image(
        images[i], io::image_format(output), describe(options, request, pipeline, index));
    const std::span<const std::byte> whole = std::as_bytes(std::span(bytes));
    staged.emplace_back(paths.back(), std::span(&whole, 1));
  }
  check_stop();
  for (StagedFile& file : staged) {
    file.keep();
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (options.flag("json")) {
      print_event(
          {{"event", "output"}, {"path", paths[i].string()}, {"index", i}, {"seed", request.seed}});
    } else {
      print(paths[i].string() + "\n");
    }
  }
}

}  // namespace

void run_generate(const OptionValues& options) {
  const Clock start = Clock::now();
  auto starting = start_threads(options);
  Log log(log_level(options));
  const pipelines::PipelineOptions all = pipeline_options(options);
  const fs::path output = options.text("output");
  (void)io::image_format(output);
  check_writable(output_path(output, 0, options.integer("n")));

  const std::unique_ptr<ThreadPool> threads = starting.get();
  Timings timings;
  Context context{.log = log, .threads = *threads, .timings = &timings};
  pipelines::FluxPipeline pipeline(model_folder(options), all, context);
  context.record("open", Clock::now().wall_s - start.wall_s);
  const GenerateRequest request = pipeline.resolved(read_request(options));
  io::check_image_size(io::image_format(output), *request.width, *request.height);
  warn_ignored(options, request, pipeline, log);
  const auto memory = pipeline.prepare(request);
  check_outputs(output, request.n);
  const std::vector<const pipelines::Resident*> components = pipeline.components();
  std::vector<const compile::Prepared*> prepared;
  prepared.reserve(components.size());
  for (const pipelines::Resident* component : components) {
    prepared.push_back(&component->prepared());
  }
  tell_artifacts(options, all.artifacts, prepared);
  print_start(options, request, memory, prepared,
              all.build.backend->describe(all.build.backend_options), threads->size());

  const auto progress = make_progress(options);
  const std::vector<io::Image> images = pipeline.generate(request, *progress);
  write_images(options, request, pipeline, images);
  if (options.flag("timings")) {
    print_timings(timings);
  }
  if (options.flag("json")) {
    const Clock end = Clock::now();
    print_event({{"event", "done"},
                 {"seconds", end.wall_s - start.wall_s},
                 {"cpu_seconds", end.cpu_s},
                 {"peak_rss_bytes", peak_memory()}});
  }
}

}  // namespace difflet::cli
