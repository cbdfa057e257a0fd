#include "difflet/compile/verify.h"

#include <string>

#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/verify_quant.h"

namespace difflet::cli {
namespace {

void print_block(const OptionValues& options, const std::string& component,
                 const compile::BlockDifference& block) {
  const Difference& d = block.difference;
  if (options.flag("json")) {
    print_event({{"component", component},
                 {"block", block.block},
                 {"output", block.output},
                 {"type", block.type.str()},
                 {"max_abs", d.max_abs},
                 {"relative_to_largest", block.relative_to_largest()},
                 {"relative", d.relative},
                 {"cosine", d.cosine},
                 {"worst_index", block.worst_index},
                 {"value", d.a},
                 {"reference", d.b},
                 {"non_finite", d.non_finite}});
    return;
  }
  print(
      fmt::format("{:<34} {:<22} {:.2e} of the largest, rms {:.2e}, cosine {:.7f}; {} at {}, the "
                  "reference has {}{}\n",
                  block.block, block.type.str(), block.relative_to_largest(), d.relative, d.cosine,
                  d.a, block.worst_index, d.b,
                  d.non_finite > 0 ? fmt::format("; {} not finite", d.non_finite) : ""));
}

compile::NamedTensors inputs_of(const OptionValues& options, const graph::Graph& graph) {
  if (!options.given("inputs")) {
    return compile::noise_inputs(graph);
  }
  return read_inputs(options.text("inputs"));
}

// The block that differs most.
struct Worst {
  double value = 0;
  std::string where;
  bool finite = true;
};

void verify_target(const OptionValues& options, const Target& target, Context& context,
                   Worst& worst) {
  const compile::BuildOptions build = build_options(options);
  const graph::Graph graph = target.folder->trace(target.shapes.front(), build.dtype);
  const auto weights = target.folder->weights(context.threads, [] { check_stop(); });
  const auto report = [&](const compile::BlockDifference& block) {
    check_stop();
    print_block(options, target.name, block);
    worst.finite = worst.finite && block.difference.non_finite == 0;
    if (block.relative_to_largest() >= worst.value) {
      worst.value = block.relative_to_largest();
      worst.where =
          fmt::format("{}, {} {} at {}", target.name, block.block, block.output, block.worst_index);
    }
  };
  compile::verify_blocks(graph, inputs_of(options, graph), *weights, backends::find("reference"),
                         *build.backend, build.backend_options, context, report);
}

}  // namespace

void run_verify(const OptionValues& options) {
  if (verifies_quant(options)) {
    run_verify_quant(options);
    return;
  }
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Targets targets(options, context);
  Worst worst;
  for (const Target& target : targets.all()) {
    verify_target(options, target, context, worst);
  }
  const double tolerance = options.given("tolerance")            ? options.number("tolerance")
                           : dtype_option(options) == DType::F32 ? 1e-4
                                                                 : 2e-2;
  if (!options.flag("json")) {
    print(fmt::format("worst {:.2e} of the largest: {}\n", worst.value, worst.where));
  }
  check(worst.finite && worst.value <= tolerance, ErrorCode::DataLoss,
        "{} differs from the reference by {:.2e} of the largest value ({}); {} is allowed",
        options.text("backend"), worst.value, worst.where, tolerance);
}

}  // namespace difflet::cli
