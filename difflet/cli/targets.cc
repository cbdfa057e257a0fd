#include "difflet/cli/targets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/base/split.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/io/safetensors.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;

// A word that a shell reads as `text`.
std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::optional<std::int64_t> extent(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && value >= 1 && value <= 65536 ? std::optional(value) : std::nullopt;
}

}  // namespace

fs::path cache_dir(const OptionValues& options) {
  if (const auto given = options.optional_text("cache-dir")) {
    return *given;
  }
  const auto absolute = [](const char* variable) -> std::optional<fs::path> {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return value != nullptr && value[0] == '/' ? std::optional<fs::path>(value) : std::nullopt;
  };
  if (const auto cache = absolute("XDG_CACHE_HOME")) {
    return *cache / "difflet";
  }
  const auto home = absolute("HOME");
  check(home.has_value(), ErrorCode::InvalidArgument,
        "neither XDG_CACHE_HOME nor HOME is set; name the artifact store with --cache-dir");
  return *home / ".cache" / "difflet";
}

std::size_t picture_memory_limit(const OptionValues& options) {
  const bool known = find_option(options.command(), "vae-memory-limit") != nullptr;
  return known ? options.optional_bytes("vae-memory-limit").value_or(0) : 0;
}

void check_picture_limit(const OptionValues& options, const compile::ComponentFolder& folder) {
  check(picture_memory_limit(options) == 0 || folder.model().makes_picture(),
        ErrorCode::InvalidArgument, "--vae-memory-limit: {} makes no picture", folder.class_name());
}

compile::QuantRequest quant_request(const OptionValues& options) {
  return compile::parse_quant_request(options.optional_text("quant"),
                                      options.optional_text("quant-groups"));
}

compile::BuildOptions build_options(const OptionValues& options) {
  compile::BuildOptions build{.dtype = dtype_option(options),
                              .quant = quant_request(options),
                              .variant = options.text("variant"),
                              .backend = &backends::find(options.text("backend")),
                              .backend_options = {.cpu_level = options.text("cpu-level"),
                                                  .memory_limit = available_memory()}};
  if (find_option(options.command(), "schedule-capacity") != nullptr) {
    build.schedule_capacity = options.integer("schedule-capacity");
  }
  build.backend_options.picture_memory_limit = picture_memory_limit(options);
  return build;
}

compile::ArtifactUse artifact_use(const OptionValues& options) {
  compile::ArtifactUse use;
  const std::string mode = options.text("artifact");
  use.mode = mode == "off"       ? compile::ArtifactMode::Off
             : mode == "require" ? compile::ArtifactMode::Require
                                 : compile::ArtifactMode::Auto;
  if (use.mode != compile::ArtifactMode::Off) {
    use.store = cache_dir(options);
    use.compile_command = compile_command(options);
  }
  const std::string weights = options.text("weights");
  use.weights = weights == "map"    ? compile::WeightMode::Map
                : weights == "copy" ? compile::WeightMode::Copy
                                    : compile::WeightMode::Auto;
  return use;
}

std::vector<pipelines::PictureSize> picture_sizes(const OptionValues& options) {
  std::vector<pipelines::PictureSize> sizes;
  const auto text = options.optional_text("shapes");
  if (!text) {
    return sizes;
  }
  for (const std::string_view one : split(*text, ',')) {
    const std::size_t x = std::min(one.find('x'), one.size());
    const auto width = extent(one.substr(0, x));
    const auto height = extent(x < one.size() ? one.substr(x + 1) : "");
    check(width && height, ErrorCode::InvalidArgument,
          "--shapes: '{}' is not WIDTHxHEIGHT in pixels, 1 ... 65536 each", one);
    const pipelines::PictureSize size{*width, *height};
    check(std::find(sizes.begin(), sizes.end(), size) == sizes.end(), ErrorCode::InvalidArgument,
          "--shapes: {} is there twice", one);
    sizes.push_back(size);
  }
  return sizes;
}

pipelines::PipelineOptions pipeline_options(const OptionValues& options) {
  pipelines::PipelineOptions all{.build = build_options(options), .artifacts = {}, .sizes = {}};
  if (find_option(options.command(), "weights") != nullptr) {  // looks for artifacts by itself
    all.artifacts = artifact_use(options);
  }
  if (find_option(options.command(), "shapes") != nullptr) {
    all.sizes = picture_sizes(options);
  }
  return all;
}

std::string compile_command(const OptionValues& options) {
  std::string command = "difflet compile";
  for (const OptionDecl* option : options_of(options.command())) {
    const bool known = find_option("compile", option->name) != nullptr;
    const bool decides = option->effect == OptionEffect::Compile || option->name == "cache-dir";
    if (known && decides && options.given(option->name)) {
      command += fmt::format(" --{} {}", option->name, shell_word(options.text(option->name)));
    }
  }
  return command;
}

models::ShapeMap input_shapes(const fs::path& path) {
  models::ShapeMap shapes;
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  for (const auto& [name, entry] : file.entries()) {
    shapes.emplace(name, entry.shape);
  }
  return shapes;
}

compile::NamedTensors read_inputs(const std::filesystem::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  for (const auto& [name, reason] : file.unsupported()) {
    fail(ErrorCode::Unsupported, "{}: input '{}': {}", path.string(), name, reason);
  }
  compile::NamedTensors inputs;
  for (const auto& [name, entry] : file.entries()) {
    inputs.emplace(name, file.tensor(name));
  }
  return inputs;
}

std::string component_name(const OptionValues& options, const compile::ComponentFolder& folder) {
  if (options.given("component")) {
    return options.text("component");
  }
  std::error_code error;
  const fs::path whole = fs::canonical(folder.path(), error);
  return (error ? folder.path() : whole).filename().string();
}

void tell_artifacts(const OptionValues& options, const compile::ArtifactUse& use,
                    const std::vector<const compile::Prepared*>& components) {
  std::vector<std::string> names;
  std::string reason;
  for (const compile::Prepared* component : components) {
    if (!component->artifact() && use.mode == compile::ArtifactMode::Auto) {
      names.push_back(component->name());
      reason = reason.empty() ? component->miss_reason() : reason;
    }
  }
  if (!names.empty() && !options.flag("quiet")) {
    print_message(fmt::format("{}: no artifact ({}); compiling in this process, '{}' keeps it\n",
                              fmt::join(names, ", "), reason, use.compile_command));
  }
}

void print_timings(const Timings& timings) {
  for (const Timings::Phase& phase : timings.phases()) {
    print_message(fmt::format("{:>9.1f} ms  {}{}{}\n", phase.seconds * 1e3, phase.name,
                              phase.detail.empty() ? "" : ": ", phase.detail));
  }
}

Targets::Targets(const OptionValues& options, Context& context) {
  const bool pipeline = pipelines::has_model_index(model_folder(options));
  check(pipeline || options.given("inputs"), ErrorCode::InvalidArgument,
        "'{}' is no pipeline; give the shapes of one component with --inputs",
        options.text("model"));
  if (options.given("inputs")) {
    add_component(options, context);
  } else {
    add_pipeline(options, context);
  }
}

void Targets::add_pipeline(const OptionValues& options, Context& context) {
  pipeline_ = std::make_unique<pipelines::FluxPipeline>(model_folder(options),
                                                        pipeline_options(options), context);
  const pipelines::GenerateRequest request =
      pipeline_->resolved({.prompt = {},
                           .negative_prompt = {},
                           .width = options.optional_integer("width"),
                           .height = options.optional_integer("height"),
                           .n = options.integer("n"),
                           .steps = 1,
                           .max_sequence_length = options.integer("max-sequence-length")});
  const std::string wanted = options.text("component");
  for (const pipelines::Resident* r : pipeline_->components()) {
    if (wanted.empty() || wanted == r->name()) {
      all_.push_back({r->name(), &r->folder(), pipeline_->shapes(*r, request)});
    }
  }
  if (!wanted.empty() && !all_.empty()) {
    check_picture_limit(options, *all_.front().folder);
  }
  check(!all_.empty(), ErrorCode::NotFound, "{}: no component '{}' that is compiled",
        options.text("model"), wanted);
  if (!wanted.empty()) {
    compile::check_quant_request(std::array{all_.front().folder->quant_subject()},
                                 quant_request(options));
  }
}

void Targets::add_component(const OptionValues& options, Context& context) {
  const auto place = pipelines::find_component(model_folder(options), options.text("component"));
  folder_ = compile::ComponentFolder::open(place.folder, place.class_name, options.text("variant"),
                                           context.log);
  check_picture_limit(options, *folder_);
  compile::quantise(std::array{&*folder_}, quant_request(options));
  all_.push_back(
      {component_name(options, *folder_), &*folder_, {input_shapes(options.text("inputs"))}});
}

}  // namespace difflet::cli
