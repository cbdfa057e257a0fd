#include "difflet/bench/worker.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/base/version.h"
#include "difflet/bench/op_groups.h"
#include "difflet/bench/resolved.h"
#include "difflet/bench/windows.h"
#include "difflet/io/safetensors.h"
#include "difflet/pipelines/flux_pipeline.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

// With both clocks, of now.
void send_timed(const WorkerEdge& edge, Json event) {
  event["cpu_s"] = process_cpu_seconds();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  event["clock_s"] = std::chrono::duration<double>(now).count();
  edge.send(event);
}

void send_begin(const WorkerEdge& edge, std::string_view name) {
  send_timed(edge, {{"event", "begin"}, {"name", name}});
}

void send_end(const WorkerEdge& edge, std::string_view name) {
  send_timed(edge, {{"event", "end"}, {"name", name}});
}

template <typename F>
void in_stage(const WorkerEdge& edge, std::string_view name, const F& f) {
  send_begin(edge, name);
  f();
  send_end(edge, name);
}

void send_output(const WorkerEdge& edge, const std::string& name, const HostTensor& tensor) {
  const HostTensor f32 = is_float(tensor.dtype()) ? tensor.to(DType::F32) : tensor;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double sum = 0;
  bool finite = true;
  for (const float v : f32.as<float>()) {
    finite = finite && std::isfinite(v);
    low = std::min(low, static_cast<double>(v));
    high = std::max(high, static_cast<double>(v));
    sum += static_cast<double>(v);
  }
  const double count = static_cast<double>(std::max<std::int64_t>(f32.shape().elements(), 1));
  const auto number = [finite](double v) { return finite ? Json(v) : Json(); };
  edge.send(
      {{"event", "output"},
       {"name", name},
       {"shape", std::vector<std::int64_t>(f32.shape().dims().begin(), f32.shape().dims().end())},
       {"finite", finite},
       {"min", number(low)},
       {"max", number(high)},
       {"mean", number(sum / count)}});
}

// What the programs of a component did in one request, by kernel: steps, seconds, FLOPs and bytes. A
// program that ran several times is counted as often, each run as the last one.
class ComponentProfile {
 public:
  // Appends the groups of the runs since the call before.
  void add(Json& groups, const std::string& component,
           const compile::StagedExecutable& executable) {
    for (const auto& program : executable.profile()) {
      std::int64_t& seen = seen_[program.program];
      const std::int64_t runs = program.runs - std::exchange(seen, program.runs);
      if (runs <= 0) {
        continue;
      }
      const auto times = static_cast<double>(runs);
      for (const OpGroup& group : group_steps(program.steps)) {
        groups.push_back({{"component", component},
                          {"program", program.program},
                          {"runs", runs},
                          {"kernel", group.kernel},
                          {"steps", static_cast<std::int64_t>(group.steps) * runs},
                          {"seconds", group.seconds * times},
                          {"flops", group.flops * times},
                          {"bytes", group.bytes * times}});
      }
    }
  }

 private:
  std::map<std::string, std::int64_t> seen_;  // runs by program
};

void send_profile(const WorkerEdge& edge, Json groups) {
  edge.send({{"event", "profile"}, {"groups", std::move(groups)}});
}

std::string text_option(const Json& options, const char* key, const char* fallback) {
  const auto found = options.find(key);
  return found != options.end() && found->is_string() ? found->get<std::string>() : fallback;
}

constexpr std::string_view kGroup = "group.";  // another mode for a group of layers

// A level is checked by the backend, a group by the component.
void check_options(const Json& options) {
  for (const auto& [key, value] : options.items()) {
    const bool known = (key == "artifact" && value == "off") ||
                       (key == "weights" && (value == "map" || value == "copy")) ||
                       ((key == "level" || key.starts_with(kGroup)) && value.is_string());
    check(known, ErrorCode::InvalidArgument,
          "difflet has no engine option {}={}; it has pack, map, copy, f32, bf16, w8a16, w8a8, "
          "float, modulation, group.NAME=MODE and level=NAME",
          key, value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

// None leaves a folder as it is: a quantised one has int8 weights all the same.
compile::QuantRequest quant_request(const Resolved& r) {
  compile::QuantRequest request;
  if (r.quant != graph::WeightQuant::None) {
    request.mode = r.quant;
  }
  for (const auto& [key, value] : r.options.items()) {
    if (key.starts_with(kGroup)) {
      request.groups[key.substr(kGroup.size())] =
          compile::parse_weight_quant(value.get_ref<const std::string&>());
    }
  }
  return request;
}

compile::BuildOptions build_options(const Resolved& r, const WorkerEdge& edge) {
  return {.dtype = r.dtype,
          .quant = quant_request(r),
          .backend = &backends::find("cpu"),
          .backend_options = {.cpu_level = text_option(r.options, "level", ""),
                              .memory_limit = edge.available_memory}};
}

compile::ArtifactUse artifact_use(const Resolved& r) {
  compile::ArtifactUse use;
  use.mode = text_option(r.options, "artifact", "auto") == "off" ? compile::ArtifactMode::Off
                                                                 : compile::ArtifactMode::Auto;
  use.store = r.work / "store";
  use.compile_command = "difflet bench run";
  use.expected_runs = r.runs;
  const std::string weights = text_option(r.options, "weights", "auto");
  use.weights = weights == "map"    ? compile::WeightMode::Map
                : weights == "copy" ? compile::WeightMode::Copy
                                    : compile::WeightMode::Auto;
  return use;
}

// Makes the artifact unless it is there.
void compile_one(const std::string& name, const compile::ComponentFolder& folder,
                 const std::vector<models::ShapeMap>& shapes, const compile::BuildOptions& build,
                 const fs::path& store, Context& context, const WorkerEdge& edge) {
  const auto weights = folder.weights(context.threads, edge.check_stop);
  (void)compile::compile_to_store(name, folder, shapes, build, artifact::Store(store), context,
                                  *weights, [&](const std::string&) { edge.check_stop(); });
}

// What a scenario measures.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void compile() = 0;  // into the store
  virtual void load() = 0;
  virtual runtime::MemoryReport planned() const = 0;  // of what is loaded
  virtual void run() = 0;
  virtual std::map<std::string, HostTensor> outputs() const = 0;  // of the last run
};

class ComponentSubject final : public Subject {
 public:
  ComponentSubject(const Resolved& r, const WorkerEdge& edge, Context& context)
      : resolved_(r),
        edge_(edge),
        context_(context),
        build_(build_options(r, edge)),
        folder_(open(r, context.log)) {
    check(!build_.quant.quantises() || !folder_.quant().layers.empty(), ErrorCode::Unsupported,
          "{} has no layers that are quantised", r.component);
    compile::quantise(std::array{&folder_}, build_.quant);
    const io::SafetensorsFile file = io::SafetensorsFile::open(r.inputs);
    for (const auto& [name, entry] : file.entries()) {
      inputs_.emplace(name, file.tensor(name));
      shapes_.emplace(name, entry.shape);
    }
  }

  void compile() override {
    compile_one(resolved_.component, folder_, {shapes_}, build_, resolved_.work / "store", context_,
                edge_);
  }
  void load() override {
    prepared_.emplace(resolved_.component, folder_, std::vector{shapes_}, 0, build_,
                      artifact_use(resolved_), context_);
    const auto weights = folder_.weights(context_.threads, edge_.check_stop);
    executable_ = prepared_->load(*weights);
  }
  runtime::MemoryReport planned() const override { return prepared_->planned(); }
  void run() override {
    in_stage(edge_, stage(), [&] { outputs_ = executable_->run(inputs_); });
    for (const auto& [name, tensor] : outputs_) {
      send_output(edge_, name, tensor);
    }
    Json groups = Json::array();
    profile_.add(groups, resolved_.component, *executable_);
    send_profile(edge_, std::move(groups));
  }
  std::map<std::string, HostTensor> outputs() const override { return outputs_; }

 private:
  static compile::ComponentFolder open(const Resolved& r, Log& log) {
    const auto place = pipelines::find_component(r.model, r.component);
    return compile::ComponentFolder::open(place.folder, place.class_name, "", log);
  }
  std::string_view stage() const {
    return resolved_.component == "transformer" ? "denoise"
           : resolved_.component == "vae"       ? "decode"
                                                : "encode";
  }

  const Resolved& resolved_;
  const WorkerEdge& edge_;
  Context& context_;
  compile::BuildOptions build_;
  compile::ComponentFolder folder_;
  compile::NamedTensors inputs_, outputs_;
  models::ShapeMap shapes_;
  std::optional<compile::Prepared> prepared_;
  std::unique_ptr<compile::StagedExecutable> executable_;
  ComponentProfile profile_;
};

class StageEvents final : public pipelines::Observer {
 public:
  explicit StageEvents(const WorkerEdge& edge) : edge_(edge) {}
  void stage_begin(std::string_view name) override { send_begin(edge_, name); }
  void stage_end(std::string_view name, double /*seconds*/) override { send_end(edge_, name); }
  void step(std::int64_t done, std::int64_t /*total*/, double /*seconds*/) override {
    send_timed(edge_, {{"event", "step"}, {"index", done - 1}});
  }
  void check_stop() override { edge_.check_stop(); }

 private:
  const WorkerEdge& edge_;
};

class PipelineSubject final : public Subject {
 public:
  PipelineSubject(const Resolved& r, const WorkerEdge& edge, Context& context)
      : resolved_(r),
        edge_(edge),
        context_(context),
        pipeline_(r.model,
                  {.build = build_options(r, edge), .artifacts = artifact_use(r), .sizes = {}},
                  context),
        request_(pipeline_.resolved({.prompt = r.prompt,
                                     .negative_prompt = {},
                                     .width = r.width,
                                     .height = r.height,
                                     .n = r.n,
                                     .steps = r.steps,
                                     .guidance = r.guidance,
                                     .seed = r.seed,
                                     .max_sequence_length = r.max_sequence_length})) {}

  void compile() override {
    for (const pipelines::Resident* part : pipeline_.components()) {
      compile_one(part->name(), part->folder(), pipeline_.shapes(*part, request_),
                  build_options(resolved_, edge_), resolved_.work / "store", context_, edge_);
    }
  }
  void load() override {
    pipeline_.prepare(request_);
    StageEvents events(edge_);
    pipeline_.load(events);
  }
  runtime::MemoryReport planned() const override {
    runtime::MemoryReport sum;
    for (const pipelines::Resident* part : pipeline_.components()) {
      const runtime::MemoryReport& one = part->prepared().planned();
      sum.weight_bytes += one.weight_bytes;
      sum.arena_bytes += one.arena_bytes;
      sum.scratch_bytes += one.scratch_bytes;
    }
    return sum;
  }
  void run() override {
    StageEvents events(edge_);
    images_ = pipeline_.generate(request_, events);
    pictures_ = as_tensor(images_);
    send_output(edge_, "images", pictures_);
    profile();
  }
  std::map<std::string, HostTensor> outputs() const override { return {{"images", pictures_}}; }

 private:
  // Of all components, unless one had to go to make room for others.
  void profile() {
    Json groups = Json::array();
    for (const pipelines::Resident* part : pipeline_.components()) {
      if (part->executable() == nullptr) {
        return;
      }
      profiles_[part->name()].add(groups, part->name(), *part->executable());
    }
    send_profile(edge_, std::move(groups));
  }
  // [n, height, width, 3] in 0 ... 1.
  static HostTensor as_tensor(const std::vector<io::Image>& images) {
    HostTensor out(DType::F32, {static_cast<std::int64_t>(images.size()), images.front().height,
                                images.front().width, 3});
    auto to = out.mutable_as<float>().begin();
    for (const io::Image& image : images) {
      to = std::transform(image.rgb.begin(), image.rgb.end(), to,
                          [](std::uint8_t v) { return static_cast<float>(v) / 255.0F; });
    }
    return out;
  }

  const Resolved& resolved_;
  const WorkerEdge& edge_;
  Context& context_;
  pipelines::FluxPipeline pipeline_;
  pipelines::GenerateRequest request_;
  std::map<std::string, ComponentProfile> profiles_;
  std::vector<io::Image> images_;
  HostTensor pictures_;
};

void serve(Subject& subject, const WorkerEdge& edge) {
  while (const auto line = edge.read_line()) {
    const Json command = parse_json(*line, "standard input");
    const std::string what = command.is_object() ? text_option(command, "do", "") : "";
    if (what == "run") {
      in_stage(edge, "run", [&] { subject.run(); });
    } else if (what == "save") {
      std::map<std::string, HostTensor> stored;
      for (const auto& [name, tensor] : subject.outputs()) {
        stored.emplace(name, tensor.to(DType::F32));
      }
      io::write_safetensors(text_option(command, "path", ""), stored);
      edge.send({{"event", "saved"}});
    } else {
      check(what == "exit", ErrorCode::InvalidArgument, "unknown command '{}'", *line);
      return;
    }
  }
}

void work(const fs::path& path, const WorkerEdge& edge) {
  const Resolved resolved = parse_resolved(read_json_file(path));
  check_options(resolved.options);
  const runtime::Backend& backend = backends::find("cpu");
  const runtime::BackendOptions options{.cpu_level = text_option(resolved.options, "level", "")};
  Json versions{{"difflet", kVersion}};
  for (const auto& [name, value] : backend.toolchain(options)) {
    versions[name] = value;
  }
  edge.send({{"event", "hello"},
             {"engine", resolved.engine},
             {"versions", versions},
             {"options", resolved.options}});
  Log log(LogLevel::Warning);
  ThreadPool threads(static_cast<int>(resolved.threads));
  Context context{.log = log, .threads = threads};
  std::unique_ptr<Subject> subject;
  if (resolved.component.empty()) {
    subject = std::make_unique<PipelineSubject>(resolved, edge, context);
  } else {
    subject = std::make_unique<ComponentSubject>(resolved, edge, context);
  }
  if (artifact_use(resolved).mode != compile::ArtifactMode::Off) {
    in_stage(edge, "compile", [&] { subject->compile(); });
  }
  in_stage(edge, "load", [&] { subject->load(); });
  const runtime::MemoryReport memory = subject->planned();
  edge.send({{"event", "ready"},
             {"memory",
              {{"weight_bytes", memory.weight_bytes},
               {"activation_bytes", memory.arena_bytes},
               {"scratch_bytes", memory.scratch_bytes}}}});
  serve(*subject, edge);
}

}  // namespace

void run_worker(const fs::path& scenario, const WorkerEdge& edge) {
  try {
    work(scenario, edge);
  } catch (const Error& e) {
    edge.send({{"event", "error"},
               {"kind", e.code() == ErrorCode::Unsupported ? "unsupported" : "failed"},
               {"message", e.message()}});
    throw;
  }
}

}  // namespace difflet::bench
