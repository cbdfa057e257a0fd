// Difflet as an engine of the benchmark protocol: reads commands, writes events.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "difflet/base/json.h"

namespace difflet::bench {

// The two streams of a worker and what it must not find out by itself.
struct WorkerEdge {
  std::function<std::optional<std::string>()> read_line;  // nothing at the end of the input
  std::function<void(const Json&)> send;                  // one event, at once
  std::function<void()> check_stop;                       // throws Cancelled
  std::size_t available_memory = 0;                       // bytes; 0: no limit
};

// Loads what the resolved scenario names and answers commands until the end of the input or "exit".
// Options: artifact=off, weights=map|copy|auto, level=NAME, group.NAME=MODE (of int8 weights). An error
// becomes an event and is thrown on.
void run_worker(const std::filesystem::path& scenario, const WorkerEdge& edge);

}  // namespace difflet::bench
