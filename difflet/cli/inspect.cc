#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/quant_sizes.h"
#include "difflet/cli/targets.h"
#include "difflet/compile/component.h"
#include "difflet/compile/staged.h"
#include "difflet/graph/passes/split_bindings.h"
#include "difflet/pipelines/flux_pipeline.h"
#include "difflet/pipelines/flux_shapes.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::cli {
namespace {

using compile::ComponentFolder;
using pipelines::ProgramSize;

// What a checkpoint stores of one component.
struct Stored {
  std::int64_t parameters = 0;
  std::map<std::string, std::size_t> bytes;  // by dtype
};

// What binding times save.
struct Split {
  std::size_t request_nodes = 0, schedule_nodes = 0, step_nodes = 0;
  double flops_saved = 0;              // a step
  std::size_t weight_bytes_saved = 0;  // that a step does not read
  std::vector<std::string> notes;      // what moved where, and what did not
};

struct Row {
  std::string name, class_name;
  Stored stored;
  runtime::MemoryReport planned;
  Split split;
  std::string bands;  // how the picture is computed within --vae-memory-limit; empty without
  QuantSizes quant;
};

Split split_of(const graph::Graph& graph, std::int64_t capacity) {
  const auto split = graph::passes::split_bindings(graph, {.schedule_capacity = capacity});
  return {.request_nodes = split.request ? split.request->nodes().size() : 0,
          .schedule_nodes = split.schedule ? split.schedule->nodes().size() : 0,
          .step_nodes = split.step.nodes().size(),
          .flops_saved = split.flops_saved,
          .weight_bytes_saved = split.weight_bytes_saved,
          .notes = split.notes};
}

Stored count(const ComponentFolder& folder) {
  Stored stored;
  std::set<std::string, std::less<>> vectors;  // of int8 weights, beside the parameters
  for (const auto& [weight, quant] : folder.quant().plan()) {
    vectors.insert({graph::passes::scale_name(weight), graph::passes::smooth_name(weight)});
  }
  for (const std::string& name : folder.checkpoint().names()) {
    if (folder.model().ignores(name)) {
      continue;
    }
    const io::TensorEntry& entry = folder.checkpoint().entry(name);
    stored.parameters += vectors.contains(name) ? 0 : entry.shape.elements();
    stored.bytes[std::string(dtype_name(entry.dtype))] += entry.end - entry.begin;
  }
  return stored;
}

std::string text_of(const Stored& stored) {
  std::vector<std::string> parts;
  parts.reserve(stored.bytes.size());
  for (const auto& [dtype, bytes] : stored.bytes) {
    parts.push_back(fmt::format("{} {}", dtype, readable_bytes(bytes)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json as_json(const Row& row) {
  Json bytes = Json::object();
  for (const auto& [dtype, count] : row.stored.bytes) {
    bytes[dtype] = count;
  }
  return {{"name", row.name},
          {"class", row.class_name},
          {"parameters", row.stored.parameters},
          {"stored_bytes", bytes},
          {"planned_bytes",
           {{"weights", row.planned.weight_bytes},
            {"activations", row.planned.arena_bytes},
            {"scratch", row.planned.scratch_bytes}}},
          {"bands", row.bands.empty() ? Json() : Json(row.bands)},
          {"quant", as_json(row.quant)},
          {"split",
           {{"request_nodes", row.split.request_nodes},
            {"schedule_nodes", row.split.schedule_nodes},
            {"step_nodes", row.split.step_nodes},
            {"flops_saved_a_step", row.split.flops_saved},
            {"weight_bytes_saved_a_step", row.split.weight_bytes_saved},
            {"moved", row.split.notes}}}};
}

void print_row(const Row& row) {
  print(fmt::format(
      "{:<16} {:<24} {:>14} parameters, stored {}; planned: weights {}, activations {}, "
      "scratch {}\n",
      row.name, row.class_name, row.stored.parameters, text_of(row.stored),
      readable_bytes(row.planned.weight_bytes), readable_bytes(row.planned.arena_bytes),
      readable_bytes(row.planned.scratch_bytes)));
  if (!row.bands.empty()) {
    print(fmt::format("{:<16} {}\n", "", row.bands));
  }
  for (const std::string& line : lines(row.quant)) {
    print(fmt::format("{:<16} {}\n", "", line));
  }
  if (row.split.request_nodes + row.split.schedule_nodes > 0) {
    print(fmt::format(
        "{:<16} by binding time: request {} nodes, schedule {}, step {}; each step saves {:.3g} "
        "GFLOP and {} of weights\n",
        "", row.split.request_nodes, row.split.schedule_nodes, row.split.step_nodes,
        row.split.flops_saved * 1e-9, readable_bytes(row.split.weight_bytes_saved)));
  }
}

class Inspector {
 public:
  Inspector(const OptionValues& options, Context& context)
      : options_(options), context_(context), backend_(backends::find(options.text("backend"))) {
    load_.cpu_level = options.text("cpu-level");
  }

  Row inspect(const std::string& name, const ComponentFolder& folder,
              const ProgramSize& size) const {
    const graph::Graph graph = trace(folder, size);
    const compile::StagedPrograms staged = programs(folder, graph);
    const bool limited = options_of(folder).picture_memory_limit > 0;
    return {.name = name,
            .class_name = folder.class_name(),
            .stored = count(folder),
            .planned = compile::planned_memory(staged, backend_, context_, load_),
            .split = split_of(graph, capacity()),
            .bands = limited ? staged.step.notes.front() : "",
            .quant = quant_sizes(folder, size, staged)};
  }
  graph::Graph trace(const ComponentFolder& folder, const ProgramSize& size) const {
    return folder.trace(pipelines::flux_shapes(folder.model(), size), dtype_option(options_));
  }
  // What moved between the programs, then what runs each op of each.
  std::vector<std::string> why(const ComponentFolder& folder, const graph::Graph& graph) const {
    std::vector<std::string> lines = split_of(graph, capacity()).notes;
    const compile::StagedPrograms staged = programs(folder, graph);
    for (const runtime::CompiledProgram* program : staged.all()) {
      for (const std::string& line : program->notes) {
        lines.push_back(fmt::format("{}: {}", program->name, line));
      }
      for (const std::string& line : backend_.explain(*program, context_, load_)) {
        lines.push_back(fmt::format("{}: {}", program->name, line));
      }
    }
    return lines;
  }
  ComponentFolder open(const pipelines::ComponentPlace& place) const {
    ComponentFolder folder = ComponentFolder::open(place.folder, place.class_name,
                                                   options_.text("variant"), context_.log);
    compile::quantise(std::array{&folder}, request_);
    return folder;
  }
  pipelines::PipelineOptions pipeline_options() const {
    return {.build = {.dtype = dtype_option(options_),
                      .quant = request_,
                      .schedule_capacity = options_.integer("schedule-capacity"),
                      .variant = options_.text("variant"),
                      .backend = &backend_,
                      .backend_options = load_},
            .artifacts = {},
            .sizes = {}};
  }

 private:
  QuantSizes quant_sizes(const ComponentFolder& folder, const ProgramSize& size,
                         const compile::StagedPrograms& staged) const {
    const compile::ComponentQuant& quant = folder.quant();
    if (quant.plan().empty()) {
      return {.asked = request_.quantises(), .can = !quant.layers.empty()};
    }
    const graph::Graph floats =
        folder.trace_float(pipelines::flux_shapes(folder.model(), size), dtype_option(options_));
    return measure_quant(quant, staged, programs(folder, floats), options_.text("dtype"));
  }
  std::int64_t capacity() const { return options_.integer("schedule-capacity"); }
  runtime::BackendOptions options_of(const ComponentFolder& folder) const {
    runtime::BackendOptions own = load_;
    own.picture_memory_limit = folder.model().makes_picture() ? picture_memory_limit(options_) : 0;
    return own;
  }
  compile::StagedPrograms programs(const ComponentFolder& folder, const graph::Graph& graph) const {
    return compile::compile_programs(graph, capacity(), backend_, context_, options_of(folder));
  }

  const OptionValues& options_;
  Context& context_;
  const runtime::Backend& backend_;
  runtime::BackendOptions load_;
  compile::QuantRequest request_ = quant_request(options_);
};

pipelines::GenerateRequest read_size(const OptionValues& options) {
  return {.prompt = {},
          .negative_prompt = {},
          .width = options.optional_integer("width"),
          .height = options.optional_integer("height"),
          .n = options.integer("n"),
          .steps = 1,
          .max_sequence_length = options.integer("max-sequence-length")};
}

// Without the rest of a pipeline the size counts in FLUX.1's eight pixels a latent.
ProgramSize lone_size(const OptionValues& options) {
  constexpr std::int64_t kScale = 8;
  constexpr std::int64_t kPixels = 1024;
  return {.n = options.integer("n"),
          .latent_height = options.optional_integer("height").value_or(kPixels) / kScale / 2 * 2,
          .latent_width = options.optional_integer("width").value_or(kPixels) / kScale / 2 * 2,
          .clip_tokens = 0,
          .t5_tokens = options.integer("max-sequence-length")};
}

void inspect_component(const OptionValues& options, const Inspector& inspector,
                       const ProgramSize& size) {
  const std::string name = options.text("component");
  const auto place = pipelines::find_component(model_folder(options), name);
  const ComponentFolder folder = inspector.open(place);
  check_picture_limit(options, folder);
  if (options.flag("graph") || options.flag("why")) {
    const graph::Graph graph = inspector.trace(folder, size);
    print(options.flag("graph") ? graph::print(graph) : "");
    for (const std::string& line :
         options.flag("why") ? inspector.why(folder, graph) : std::vector<std::string>{}) {
      print(line + "\n");
    }
    return;
  }
  const Row row =
      inspector.inspect(name.empty() ? place.folder.filename().string() : name, folder, size);
  if (options.flag("json")) {
    print_event(as_json(row));
    return;
  }
  print_row(row);
  for (const std::string& note : row.split.notes) {
    print(fmt::format("  {}\n", note));
  }
}

void inspect_pipeline(const OptionValues& options, const Inspector& inspector,
                      const pipelines::FluxPipeline& pipeline,
                      const pipelines::GenerateRequest& request, const ProgramSize& size) {
  std::vector<Row> rows;
  for (const pipelines::Resident* r : pipeline.components()) {
    rows.push_back(inspector.inspect(r->name(), r->folder(), size));
  }
  std::size_t total = 0;
  Json components = Json::array();
  for (const Row& row : rows) {
    total += row.planned.total();
    components.push_back(as_json(row));
  }
  if (options.flag("json")) {
    print_event({{"pipeline", pipeline.class_name()},
                 {"width", *request.width},
                 {"height", *request.height},
                 {"n", request.n},
                 {"dtype", options.text("dtype")},
                 {"components", components},
                 {"planned_bytes", total}});
    return;
  }
  print(fmt::format("{}, planned for {} picture{} of {} x {} in {}\n", pipeline.class_name(),
                    request.n, request.n == 1 ? "" : "s", *request.width, *request.height,
                    options.text("dtype")));
  for (const Row& row : rows) {
    print_row(row);
  }
  print(fmt::format("all together {}\n", readable_bytes(total)));
}

}  // namespace

void run_inspect(const OptionValues& options) {
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Inspector inspector(options, context);
  const std::filesystem::path model = model_folder(options);
  const bool one = options.given("component") || !pipelines::has_model_index(model);
  check(one || !(options.flag("graph") || options.flag("why")), ErrorCode::InvalidArgument,
        "--graph and --why show one component; name it with --component");
  if (!pipelines::has_model_index(model)) {
    inspect_component(options, inspector, lone_size(options));
    return;
  }
  const pipelines::FluxPipeline pipeline(model, inspector.pipeline_options(), context);
  const auto request = pipeline.resolved(read_size(options));
  const ProgramSize size = pipeline.program_size(request);
  if (one) {
    inspect_component(options, inspector, size);
  } else {
    inspect_pipeline(options, inspector, pipeline, request, size);
  }
}

}  // namespace difflet::cli
