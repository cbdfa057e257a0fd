// difflet bench model.
#include <filesystem>

#include "difflet/base/error.h"
#include "difflet/bench/synthetic.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"

namespace difflet::cli {

void run_bench_model(const OptionValues& options) {
  Log log(log_level(options));
  const std::filesystem::path folder = options.text("output");
  bench::write_synthetic({.doubles = options.integer("double"),
                          .singles = options.integer("single"),
                          .t5_layers = options.integer("t5-layers"),
                          .clip_layers = options.integer("clip-layers")},
                         folder, log, check_stop);
  print(folder.string() + "\n");
}

}  // namespace difflet::cli
