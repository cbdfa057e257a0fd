#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/error_context.h"
#include "difflet/base/file.h"
#include "difflet/base/partial_folder.h"
#include "difflet/base/units.h"
#include "difflet/cli/calibration_source.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/quantised_part.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/writable.h"
#include "difflet/compile/quant_report.h"
#include "difflet/compile/write_quantised.h"
#include "difflet/graph/enum_names.h"
#include "difflet/pipelines/calibration.h"
#include "difflet/pipelines/model_copy.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;
using compile::ComponentFolder;
using Part = QuantisedPart;
using graph::passes::LinearQuantPlan;
using pipelines::FluxPipeline;

// What the w8a8 layers see. Throws InvalidArgument for statistics of another model.
compile::ColumnMaxima maxima_of(const Part& part, const compile::ModelStatistics& statistics) {
  LinearQuantPlan plan = part.quant.plan();
  std::erase_if(plan,
                [](const auto& layer) { return layer.second.mode != graph::WeightQuant::W8A8; });
  return plan.empty() ? compile::ColumnMaxima()
                      : compile::statistics_of(statistics, part.name, part.source->class_name(),
                                               plan, part.source->checkpoint())
                            .layers;
}

// Weights that cannot be quantised are in a file of this component's folder.
template <typename F>
void naming_folder(const Part& part, const F& f) {
  with_context(ErrorCode::DataLoss, [&] { return part.source->path().string(); }, f);
}

// Calibration runs the model as it is.
compile::BuildOptions float_build(const OptionValues& options) {
  compile::BuildOptions build = build_options(options);
  build.quant = {};
  return build;
}

class Quantisation {
 public:
  Quantisation(const OptionValues& options, Context& context)
      : options_(&options),
        context_(&context),
        model_(model_folder(options)),
        output_(new_folder(options.text("output"))),
        build_(float_build(options)),
        progress_(make_progress(options)) {
    open();
    choose_layers();
    choose_source();
    trace();
  }

  void run() {
    const std::vector<pipelines::CopiedFile> files = files_beside();
    PartialFolder partial(output_);
    check_disk(files);
    calibrate();
    for (Part& part : parts_) {
      naming_folder(part, [&] {
        smooth(part);
        measure(part);
      });
    }
    for (const Part& part : parts_) {
      naming_folder(part, [&] { write(part, partial.path() / part.folder); });
    }
    copy_files(files, partial.path(), [this] { progress_->check_stop(); });
    progress_->check_stop();
    partial.keep();
  }

  const std::vector<Part>& parts() const noexcept { return parts_; }
  const fs::path& output() const noexcept { return output_; }

 private:
  void open();
  void add(const std::string& name, const std::string& folder, const ComponentFolder& source);
  void choose_layers();
  void choose_source();
  void check_save_calibration() const;
  void trace();
  std::vector<pipelines::CopiedFile> files_beside() const;
  void check_disk(const std::vector<pipelines::CopiedFile>& files) const;
  void calibrate();
  FluxPipeline& pipeline_to_run();
  void run_prompts();
  void smooth(Part& part);
  void measure(Part& part);
  void write(const Part& part, const fs::path& folder);

  const OptionValues* options_;
  Context* context_;
  fs::path model_, output_;
  compile::BuildOptions build_;
  std::unique_ptr<pipelines::Observer> progress_;
  std::unique_ptr<FluxPipeline> pipeline_, int8_pipeline_;
  pipelines::GenerateRequest request_;  // of the pipeline, resolved
  std::optional<ComponentFolder> component_;
  CalibrationSource source_;
  compile::ModelStatistics statistics_;
  std::vector<Part> parts_;
};

// Sizes that tell enough of a model and do not take its whole time.
pipelines::GenerateRequest calibration_request(const OptionValues& options,
                                               const FluxPipeline& pipeline) {
  constexpr std::int64_t kLargest = 512;
  const auto side = [&](std::string_view name, std::optional<std::int64_t> own) {
    const auto given = options.optional_integer(name);
    return given ? *given : std::min(kLargest, own.value_or(kLargest));
  };
  const pipelines::GenerateRequest own = pipeline.resolved({});
  return pipeline.resolved({.prompt = {},
                            .negative_prompt = {},
                            .width = side("width", own.width),
                            .height = side("height", own.height),
                            .n = 1,
                            .steps = options.integer("steps"),
                            .guidance = options.number("guidance"),
                            .seed = options.seed("seed"),
                            .max_sequence_length = options.integer("max-sequence-length")});
}

void Quantisation::open() {
  const std::string wanted = options_->text("component");
  if (!pipelines::has_model_index(model_)) {
    const auto place = pipelines::find_component(model_, wanted);
    component_ =
        ComponentFolder::open(place.folder, place.class_name, build_.variant, context_->log);
    model_ = place.folder;
    add(component_name(*options_, *component_), "", *component_);
    return;
  }
  pipeline_ = std::make_unique<FluxPipeline>(
      model_, pipelines::PipelineOptions{.build = build_, .artifacts = {}, .sizes = {}}, *context_);
  request_ = calibration_request(*options_, *pipeline_);
  std::vector<std::string> names;
  for (const pipelines::Resident* component : pipeline_->components()) {
    names.push_back(component->name());
    if (wanted.empty() || wanted == component->name()) {
      add(component->name(), component->name(), component->folder());
    }
  }
  check(!parts_.empty(), ErrorCode::NotFound,
        "{}: no component '{}' that is quantised; there are {}", model_.string(), wanted,
        fmt::join(names, ", "));
}

void Quantisation::add(const std::string& name, const std::string& folder,
                       const ComponentFolder& source) {
  check(!source.quant().stored, ErrorCode::InvalidArgument,
        "'{}' holds int8 weights ({}): it cannot be quantised again", source.path().string(),
        source.quant().label());
  parts_.push_back({.name = name,
                    .folder = folder,
                    .source = &source,
                    .graph = std::nullopt,
                    .quant = {},
                    .smooth = {},
                    .samples = {},
                    .worst = {}});
}

// Which layers; components without any are left as they are.
void Quantisation::choose_layers() {
  const compile::QuantRequest request = quant_request(*options_);
  check(request.quantises(), ErrorCode::InvalidArgument, "--quant none leaves nothing to quantise");
  std::vector<compile::QuantSubject> subjects;
  subjects.reserve(parts_.size());
  for (const Part& part : parts_) {
    subjects.push_back(part.source->quant_subject());
  }
  compile::check_quant_request(subjects, request);
  for (Part& part : parts_) {
    part.quant =
        compile::requested_layers(part.source->quant(), request, part.source->path().string());
  }
  std::erase_if(parts_, [](const Part& part) { return part.quant.plan().empty(); });
  check(!parts_.empty(), ErrorCode::InvalidArgument, "--quant-groups leave nothing to quantise");
}

void Quantisation::choose_source() {
  CalibrationUse use{.pipeline = pipeline_ != nullptr, .smooths = false};
  for (const Part& part : parts_) {
    for (const auto& [name, layer] : part.quant.layers) {
      use.smooths = use.smooths || layer.mode == graph::WeightQuant::W8A8;
    }
  }
  source_ = calibration_source(*options_, use);
  check(!source_.inputs || parts_.size() == 1, ErrorCode::InvalidArgument,
        "--inputs are of one component: name it with --component");
  if (options_->given("save-calibration")) {
    check(!source_.prompts.empty() || source_.inputs, ErrorCode::InvalidArgument,
          "--save-calibration: nothing is run from which there would be statistics");
    check_save_calibration();
  }
  for (const Part& part : parts_) {
    if (source_.statistics) {  // refused now rather than after other work
      (void)maxima_of(part, *source_.statistics);
    }
  }
}

void Quantisation::check_save_calibration() const {
  const fs::path saved = options_->text("save-calibration");
  check_writable(saved);
  for (const char* input : {"calibration", "inputs"}) {
    if (options_->given(input)) {
      check_replaces_no_input("save-calibration", saved, options_->text(input));
    }
  }
  check_replaces_no_input("save-calibration", saved, model_);
  const fs::path target = fs::weakly_canonical(write_target(saved));
  const fs::path output = fs::weakly_canonical(output_);
  check(target != output && target.parent_path() != output, ErrorCode::InvalidArgument,
        "--save-calibration: '{}' is the folder of --output or in it, which gets its files at the "
        "end",
        saved.string());
}

// The checkpoint is compared with the model even when nothing is run.
void Quantisation::trace() {
  for (Part& part : parts_) {
    if (source_.inputs) {
      models::ShapeMap shapes;
      for (const auto& [name, tensor] : *source_.inputs) {
        shapes.emplace(name, tensor.shape());
      }
      part.graph = part.source->trace_float(shapes, build_.dtype);
    } else if (pipeline_ != nullptr) {
      const models::ShapeMap shapes =
          pipelines::flux_shapes(part.source->model(), pipeline_->program_size(request_));
      part.graph = part.source->trace_float(shapes, build_.dtype);
    }
  }
}

std::vector<pipelines::CopiedFile> Quantisation::files_beside() const {
  std::set<std::string, std::less<>> without;
  for (const Part& part : parts_) {
    without.insert(part.folder);
  }
  const std::vector<std::string> left = pipelines::left_out_of_copy(model_);
  if (!left.empty()) {
    context_->log.warn("not copied from '{}', neither regular files nor components: {}",
                       model_.string(), fmt::join(left, ", "));
  }
  return pipelines::files_of_model(model_, build_.variant, without);
}

void Quantisation::check_disk(const std::vector<pipelines::CopiedFile>& files) const {
  const fs::path parent = output_.has_parent_path() ? output_.parent_path() : fs::path(".");
  std::uint64_t needed = pipelines::bytes_to_copy(files, parent);
  for (const Part& part : parts_) {
    for (const auto& tensor : compile::quantised_tensors(*part.source, part.quant.plan())) {
      needed += tensor.bytes();
    }
  }
  const std::uint64_t free = fs::space(parent).available;
  check(needed <= free, ErrorCode::ResourceExhausted,
        "cannot write '{}': it takes {} of disk, {} are free", output_.string(),
        readable_bytes(needed), readable_bytes(free));
}

// The pipeline that prompts run through: with w8a16 weights, which change next to nothing, where floats
// do not fit into memory.
FluxPipeline& Quantisation::pipeline_to_run() {
  try {
    pipeline_->prepare(request_);
    return *pipeline_;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::ResourceExhausted) {
      throw;
    }
    context_->log.warn("calibration runs the model in w8a16: {}", e.message());
  }
  compile::BuildOptions build = build_;
  build.quant.mode = graph::WeightQuant::W8A16;
  int8_pipeline_ = std::make_unique<FluxPipeline>(
      model_, pipelines::PipelineOptions{.build = build, .artifacts = {}, .sizes = {}}, *context_);
  return *int8_pipeline_;
}

void Quantisation::run_prompts() {
  constexpr std::int64_t kFewRuns = 8;
  const std::int64_t runs =
      static_cast<std::int64_t>(source_.prompts.size()) * options_->integer("steps");
  if (runs < kFewRuns) {
    context_->log.warn(
        "calibration in few steps ({} in all) sees little of what activations can be: more prompts "
        "(--calibration) or --steps make better int8 weights",
        runs);
  }
  pipelines::CalibrationRun run{.prompts = source_.prompts, .request = request_, .layers = {}};
  for (const Part& part : parts_) {
    for (const auto& [layer, quant] : part.quant.plan()) {
      run.layers[part.name].push_back(layer);
    }
  }
  pipelines::Calibration done =
      pipelines::calibrate(pipeline_to_run(), run, build_, *context_, *progress_);
  statistics_ = std::move(done.statistics);
  for (Part& part : parts_) {
    part.samples = std::move(done.samples[part.name]);
  }
}

void Quantisation::calibrate() {
  if (source_.inputs) {
    Part& part = parts_.front();
    part.samples = {*source_.inputs};
    if (!source_.statistics) {
      const compile::CheckpointWeights weights(part.source->checkpoint(),
                                               [this] { progress_->check_stop(); });
      std::vector<std::string> layers;
      for (const auto& [layer, quant] : part.quant.plan()) {
        layers.push_back(layer);
      }
      statistics_[part.name].class_name = part.source->class_name();
      naming_folder(part, [&] {
        compile::observe({.graph = &*part.graph,
                          .layers = layers,
                          .weights = &weights,
                          .samples = part.samples,
                          .backend = build_.backend,
                          .options = build_.backend_options},
                         *context_, statistics_[part.name].layers,
                         [this](const std::string& /*segment*/) { progress_->check_stop(); });
      });
    }
  } else if (!source_.prompts.empty()) {
    run_prompts();
  }
  if (options_->given("save-calibration")) {
    compile::write_statistics(options_->text("save-calibration"), statistics_);
  }
  if (source_.statistics) {
    statistics_ = *source_.statistics;
  }
}

// Vectors of the w8a8 layers, as far as there are statistics.
void Quantisation::smooth(Part& part) {
  if (statistics_.empty()) {
    return;
  }
  for (auto& [name, layer] : part.quant.layers) {
    layer.smooth = layer.mode == graph::WeightQuant::W8A8;
  }
  part.smooth = compile::smooth_vectors(part.quant.plan(), maxima_of(part, statistics_),
                                        part.source->checkpoint(), context_->threads,
                                        [this] { progress_->check_stop(); });
}

// Layers over their bound keep their weights.
void Quantisation::measure(Part& part) {
  if (part.samples.empty()) {
    return;
  }
  const LinearQuantPlan plan = part.quant.plan();
  const compile::QuantizedWeights weights(
      part.source->checkpoint(), plan, context_->threads, [this] { progress_->check_stop(); },
      part.smooth);
  const std::string stage = fmt::format("measure {}", part.name);
  const Stopwatch watch;
  progress_->stage_begin(stage);
  compile::measure_layers({.graph = &*part.graph,
                           .plan = &plan,
                           .weights = &weights,
                           .samples = part.samples,
                           .backend = build_.backend,
                           .options = build_.backend_options},
                          *context_, [&](const compile::LayerError& row) {
                            progress_->check_stop();
                            progress_->stage_begin(fmt::format("{}: {}", stage, row.weight));
                            compile::QuantLayer& layer = part.quant.layers.at(row.weight);
                            double& worst = part.worst[layer.group];
                            worst = std::max(worst, row.relative);
                            if (!row.within_bound()) {
                              layer.mode = graph::WeightQuant::None;
                              layer.smooth = false;
                              layer.kept =
                                  fmt::format("relative error {:.1e} in {}, more than {:.0e}",
                                              row.relative, graph::enum_name(row.quant.mode),
                                              compile::layer_bound(row.quant.mode));
                            }
                          });
  progress_->stage_end(stage, watch.seconds());
}

void Quantisation::write(const Part& part, const fs::path& folder) {
  const std::string stage = fmt::format("write {}", part.name);
  const Stopwatch watch;
  fs::create_directories(folder);
  compile::write_quantised(
      *part.source, part.quant, part.smooth, build_.variant, folder, context_->threads,
      [&](std::size_t done, std::size_t total) {
        progress_->check_stop();
        progress_->stage_begin(fmt::format("{}: {} of {} tensors", stage, done, total));
      });
  progress_->stage_end(stage, watch.seconds());
}

}  // namespace

void run_quantize(const OptionValues& options) {
  const Clock start = Clock::now();
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  Quantisation quantisation(options, context);
  quantisation.run();
  for (const Part& part : quantisation.parts()) {
    if (options.flag("json")) {
      print_event(as_json(part));
    } else {
      print_part(part);
    }
  }
  if (options.flag("json")) {
    print_event({{"event", "output"}, {"path", quantisation.output().string()}});
    print_event({{"event", "done"},
                 {"seconds", Clock::now().wall_s - start.wall_s},
                 {"peak_rss_bytes", peak_memory()}});
  } else {
    print(quantisation.output().string() + "\n");
  }
}

}  // namespace difflet::cli
