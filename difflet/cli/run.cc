// difflet run: download, compile and generate in one go.
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "difflet/artifact/store.h"
#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/compile.h"
#include "difflet/cli/download.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/targets.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;

// Standard output is for the pictures, or for events.
void tell(const OptionValues& options, const Json& event, const std::string& text) {
  if (options.flag("json")) {
    print_event(event);
  } else if (!options.flag("quiet")) {
    print_message(text);
  }
}

// The folder that the positional argument names, downloaded unless it is a folder; with PlanOnly empty
// when something is missing.
fs::path model_of(const OptionValues& options, DownloadMode mode) {
  check(options.texts("id").size() == 1, ErrorCode::InvalidArgument, "run takes one model, not {}",
        options.texts("id").size());
  const std::string text = options.text("id");
  std::error_code error;
  if (fs::is_directory(text, error)) {
    return text;
  }
  std::optional<io::hub::ModelName> name = io::hub::parse_model_name(text);
  check(name.has_value(), ErrorCode::InvalidArgument,
        "'{}' is neither a folder nor an id, org/name or org/name@revision", text);
  if (options.given("revision")) {
    name->revision = options.text("revision");
  }
  return download_model(options, *name, mode);
}

// Bytes of packed weights and of programs' code that compiling would make.
std::size_t compiled_bytes(const Target& target, const compile::BuildOptions& build,
                           Context& context) {
  std::size_t bytes = 0;
  std::set<std::string> pieces;
  for (const models::ShapeMap& shapes : target.shapes) {
    const compile::StagedPrograms programs = compile::compile_programs(
        target.folder->trace(shapes, build.dtype), build.schedule_capacity, *build.backend, context,
        compile::for_component(build, *target.folder).backend_options);
    for (const runtime::CompiledProgram* program : programs.all()) {
      bytes += program->code.size();
      for (const runtime::WeightPiece& piece : program->pieces) {
        bytes += pieces.insert(piece.name).second ? piece.bytes : 0;
      }
    }
  }
  return bytes;
}

void show_compile_plan(const OptionValues& options) {
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Targets targets(options, context);
  const compile::BuildOptions build = build_options(options);
  const artifact::Store store(cache_dir(options));
  for (const Target& target : targets.all()) {
    const artifact::Identity identity =
        compile::identity_of(*target.folder, target.shapes, build, store.root(), context);
    const artifact::Lookup found = store.find(identity);
    const std::size_t bytes = found.artifact ? 0 : compiled_bytes(target, build, context);
    tell(options,
         {{"event", "compile_plan"},
          {"component", target.name},
          {"key", found.artifact ? found.artifact->key() : artifact::key_of(identity)},
          {"present", found.artifact.has_value()},
          {"bytes", bytes}},
         found.artifact
             ? fmt::format("{:<16} is compiled ({})\n", target.name, found.artifact->key())
             : fmt::format("{:<16} to compile, {}\n", target.name, readable_bytes(bytes)));
  }
}

OptionValues with_model(const OptionValues& options, std::string_view command,
                        const fs::path& model) {
  OptionValues values = options.of_command(command);
  values.set("model", model.string());
  return values;
}

}  // namespace

void run_run(const OptionValues& options) {
  const bool dry = options.flag("dry-run");
  const fs::path model = model_of(options, dry ? DownloadMode::PlanOnly : DownloadMode::Download);
  if (dry) {
    if (model.empty()) {
      tell(options, {{"event", "compile_plan"}, {"component", nullptr}},
           "what is to be compiled is known when the download is there\n");
    } else {
      show_compile_plan(with_model(options, "compile", model));
    }
    return;
  }
  compile_targets(with_model(options, "compile", model),
                  [&](const std::string& name, const compile::CompileReport& report) {
                    Json event = report_json(name, report);
                    event["event"] = "compile";
                    tell(options, event, report_text(name, report));
                  });
  run_generate(with_model(options, "generate", model));
}

}  // namespace difflet::cli
