#include "difflet/cli/compile.h"

#include <string>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/targets.h"

namespace difflet::cli {
namespace {

using Result = compile::CompileReport::Result;

std::string_view result_name(Result result) {
  switch (result) {
    case Result::Present:
      return "present";
    case Result::Compiled:
      return "compiled";
    case Result::CompiledWithStoredWeights:
      return "compiled, weights shared";
  }
  return "";
}

void print_report(const OptionValues& options, const std::string& name,
                  const compile::CompileReport& report) {
  if (options.flag("json")) {
    print_event(report_json(name, report));
  } else {
    print(report_text(name, report));
  }
}

}  // namespace

Json report_json(const std::string& name, const compile::CompileReport& report) {
  return {{"component", name},
          {"key", report.key},
          {"generation", report.generation},
          {"result", result_name(report.result)},
          {"weight_bytes", report.weight_bytes},
          {"seconds", report.seconds}};
}

std::string report_text(const std::string& name, const compile::CompileReport& report) {
  return fmt::format("{:<16} {} {} {}, weights {}, {:.2f} s\n", name, report.key, report.generation,
                     result_name(report.result), readable_bytes(report.weight_bytes),
                     report.seconds);
}

void compile_targets(const OptionValues& options, const ShowReport& show) {
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Targets targets(options, context);
  const compile::BuildOptions build = build_options(options);
  const artifact::Store store(cache_dir(options));
  for (const Target& target : targets.all()) {
    check_stop();
    std::string told;
    const auto waiting = [&](const std::string& holder) {
      check_stop();
      if (holder != told && !options.flag("quiet")) {
        print_message(fmt::format("{}: waiting for {}\n", target.name, holder));
        told = holder;
      }
    };
    const auto weights = target.folder->weights(threads, [] { check_stop(); });
    try {
      show(target.name, compile::compile_to_store(target.name, *target.folder, target.shapes, build,
                                                  store, context, *weights, waiting));
    } catch (Error& e) {
      e.add_context(target.name);
      throw;
    }
  }
}

void run_compile(const OptionValues& options) {
  compile_targets(options, [&](const std::string& name, const compile::CompileReport& report) {
    print_report(options, name, report);
  });
}

}  // namespace difflet::cli
