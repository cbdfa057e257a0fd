// What a benchmark run found: typed, as the JSON file that keeps it, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/bench/arithmetic.h"
#include "difflet/bench/protocol.h"
#include "difflet/bench/scenario.h"
#include "difflet/bench/statistics.h"

namespace difflet::bench {

// Samples of one thing, in seconds.
struct Series {
  std::vector<double> wall_s, cpu_s;
};

// Below this share of all cores' time for others, a measurement counts as quiet.
inline constexpr double kQuietShare = 0.05;

enum class EngineStatus : std::uint8_t { Ok, Unavailable, Failed };
std::string_view status_name(EngineStatus status);

struct EngineEntry {
  std::string engine;
  EngineStatus status = EngineStatus::Ok;
  std::string message;  // why not Ok
  Json hello;           // versions and options; null: it never said hello
  // "main" (what the scenario is about), "run", "step", "compile", "load", "ready", "cold", "warm" and
  // the stages.
  std::map<std::string, Series> metrics;
  Json memory;  // planned bytes by "weight_bytes", ...; null: it does not say
  std::size_t peak_bytes = 0, ready_bytes = 0;  // most memory at the end, and when it was loaded
  Json outputs = Json::array();                 // output events of the last request
  // GFLOP/s of one thread, before and after each request, of each arithmetic that its kernels use.
  std::map<Arithmetic, std::vector<double>> ceilings;
  Json profile;              // of the last request; null: none
  Json raw = Json::array();  // every request
};

struct RatioEntry {
  std::string engine, baseline, metric;  // "wall" or "cpu": of engine divided by baseline
  std::size_t pairs = 0;
  Ratio ratio;
};

struct OutputDifference {
  std::string engine, baseline, output;
  double cosine = 0, psnr = 0, relative = 0;
  std::string problem;  // why there is no number
};

// A scenario, or one point of its sweep, with one number of threads.
struct PointEntry {
  Scenario scenario;
  std::vector<EngineEntry> engines;  // the first is the baseline
  std::vector<RatioEntry> ratios;
  std::vector<OutputDifference> differences;
  Json load_before, load_after;        // load averages
  std::optional<double> others_share;  // of all cores' time: what other processes took
  std::vector<std::string> notes;
};

struct ResultFile {
  Json machine = Json::object();
  std::string started;  // ISO time
  std::vector<PointEntry> points;
};

Json result_json(const ResultFile& result);
// Throws DataLoss, beginning with `origin`, for what result_json() does not write. Reads what
// comparisons need: metrics, memory, states, machine and scenarios.
ResultFile parse_result(std::string_view text, std::string_view origin);

}  // namespace difflet::bench
