// What the benchmark harness reads: lines of an engine, scenarios, results of earlier runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/bench/compare.h"
#include "difflet/bench/metrics.h"
#include "difflet/bench/protocol.h"
#include "difflet/bench/report.h"
#include "difflet/bench/result.h"
#include "difflet/bench/scenario.h"

namespace {

using namespace difflet::bench;  // NOLINT(google-build-using-namespace)
using difflet::fuzz::law;

// Lines, one millisecond apart.
void read_session(std::string_view text) {
  Session session;
  Scenario scenario;
  scenario.component = "vae";
  double seconds = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    session.take(parse_event(text.substr(0, end)), seconds += 1e-3);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  PointEntry point;
  point.scenario = scenario;
  point.engines.emplace_back();
  EngineEntry& engine = point.engines.front();
  engine.metrics = request_metrics(scenario, session.runs());
  engine.ceilings = {{Arithmetic::Bf16Zmm, {1}}, {Arithmetic::Int8Zmm, {2}}};
  for (const RunRecord& run : session.runs()) {
    law(!run.outputs.empty(), "a request has an output");
    engine.outputs = run.outputs;
    engine.profile = run.profile;
  }
  (void)point_report(point);
}

void read_scenario(std::string_view text) {
  const Scenario scenario = parse_scenario(text, "fuzz");
  for (const Scenario& point : expand(scenario, {1, 2})) {
    law(point.width > 0 && point.height > 0 && point.threads > 0, "a point has a size");
    (void)describe(point);
    const std::string again =
        scenario_json(point).dump(-1, ' ', false, difflet::Json::error_handler_t::replace);
    law(scenario_digest(parse_scenario(again, "again")) == scenario_digest(point),
        "a scenario reads back as itself");
  }
}

void read_result(std::string_view text) {
  const ResultFile result = parse_result(text, "fuzz");
  const Comparison comparison = compare_results(result, result);
  for (const Change& change : comparison.changes) {
    law(change.ratio.low <= change.ratio.high, "an interval");
  }
  (void)comparison_report(comparison, 0.05);
}

}  // namespace

// The first byte chooses the reader.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  return difflet::fuzz::refuse_or_accept([&] {
    switch (data[0]) {
      case 'e':
        read_session(text);
        break;
      case 's':
        read_scenario(text);
        break;
      default:
        read_result(text);
    }
  });
}
