// Measures one scenario with several engines that take turns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "difflet/base/log.h"
#include "difflet/bench/engine_spec.h"
#include "difflet/bench/result.h"
#include "difflet/bench/scenario.h"

namespace difflet::bench {

enum class Compare : std::uint8_t { Times, TimesAndOutputs };

struct RunOptions {
  std::vector<EngineSpec> engines;  // the first is what the others are compared with
  EnginePlaces places;
  std::filesystem::path work;  // folder for inputs, logs and the engines' own files
  std::int64_t pairs = 5;      // requests of each engine that count
  std::int64_t starts = 0;     // new processes, with a dropped page cache and with a hot one
  std::size_t together = 4;    // engines that are loaded at once, the first among them
  double silence_s = 1800;     // without a line: an engine hangs
  Compare compare = Compare::Times;
  std::function<std::filesystem::path(const ModelSource&)> model_folder;
  std::function<void()> check_stop;              // may throw
  char** environment = nullptr;                  // of the engines
  std::function<void(const std::string&)> tell;  // progress
};

// What is wrong with an engine becomes its entry's message; only what concerns all of them throws (no
// model, no room for inputs, check_stop).
PointEntry run_point(const Scenario& scenario, const RunOptions& options, Log& log);

}  // namespace difflet::bench
