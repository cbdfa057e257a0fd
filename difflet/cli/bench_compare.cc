// difflet bench compare: two results of bench run.
#include <string>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/bench/compare.h"
#include "difflet/bench/result.h"
#include "difflet/cli/command.h"

namespace difflet::cli {

void run_bench_compare(const OptionValues& options) {
  const std::vector<std::string> files = options.texts("results");
  check(files.size() == 2, ErrorCode::InvalidArgument,
        "bench compare takes two results, the old and the new one; {} given", files.size());
  const double bound = options.number("bound");
  const bench::Comparison comparison =
      bench::compare_results(bench::parse_result(read_text_file(files[0]), files[0]),
                             bench::parse_result(read_text_file(files[1]), files[1]));
  print(bench::comparison_report(comparison, bound));
  std::vector<std::string> worse;
  for (const bench::Change& change : comparison.changes) {
    if (change.is_regression(bound)) {
      worse.push_back(fmt::format("{}, {}, {}: {:.3f}", change.scenario, change.engine,
                                  change.metric, change.ratio.value));
    }
  }
  check(worse.empty(), ErrorCode::ResourceExhausted, "{} regression{} beyond 1 + {:g}: {}",
        worse.size(), worse.size() == 1 ? "" : "s", bound, fmt::join(worse, "; "));
}

}  // namespace difflet::cli
