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
    print_event({{"component", name},
                 {"key", report.key},
                 {"generation", report.generation},
                 {"result", result_name(report.result)},
                 {"weight_bytes", report.weight_bytes},
                 {"seconds", report.seconds}});
    return;
  }
  print(fmt::format("{:<16} {} {} {}, weights {}, {:.2f} s\n", name, report.key, report.generation,
                    result_name(report.result), readable_bytes(report.weight_bytes),
                    report.seconds));
}

}  // namespace

void run_compile(const OptionValues& options) {
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
    const compile::CheckpointWeights weights(target.folder->checkpoint(), [] { check_stop(); });
    try {
      print_report(options, target.name,
                   compile::compile_to_store(target.name, *target.folder, target.shapes, build,
                                             store, context, weights, waiting));
    } catch (Error& e) {
      e.add_context(target.name);
      throw;
    }
  }
}

}  // namespace difflet::cli
