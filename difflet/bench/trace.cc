#include "difflet/bench/trace.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace difflet::bench {
namespace {

// The parts of "linear.avx2.f32 blocks.0 to_q.weight : f32[1, 5, 8]; <why>".
struct Parts {
  std::string place, result, why;
};

Parts parts_of(const runtime::StepTime& step) {
  std::string_view rest = step.what;
  rest.remove_prefix(std::min(rest.size(), step.kernel.size()));
  Parts parts;
  if (const auto end = rest.find("; "); end != std::string_view::npos) {
    parts.why = rest.substr(end + 2);
    rest = rest.substr(0, end);
  }
  if (const auto colon = rest.rfind(" : "); colon != std::string_view::npos) {
    parts.result = rest.substr(colon + 3);
    rest = rest.substr(0, colon);
  }
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  parts.place = rest;
  return parts;
}

Json step_event(const runtime::StepTime& step, double offset_s, int process, int thread) {
  Parts parts = parts_of(step);
  Json arguments{
      {"op", parts.place}, {"result", parts.result}, {"flops", step.flops}, {"bytes", step.bytes}};
  if (!parts.why.empty()) {
    arguments["why"] = parts.why;
  }
  if (step.seconds > 0) {
    arguments["gflops"] = step.flops / step.seconds * 1e-9;
    arguments["gb_per_s"] = step.bytes / step.seconds * 1e-9;
  }
  return {{"ph", "X"},
          {"name", step.kernel},
          {"cat", step.kernel.substr(0, step.kernel.find('.'))},
          {"ts", (offset_s + step.start_s) * 1e6},
          {"dur", step.seconds * 1e6},
          {"pid", process},
          {"tid", thread},
          {"args", arguments}};
}

// Names a process or a thread.
Json name_event(const std::string& what, const std::string& name, int process, int thread) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

Json chrome_trace(const std::vector<TracedProgram>& programs) {
  struct Process {
    int id = 0, threads = 0;
    double end_s = 0;
  };
  std::map<std::string, Process> processes;
  Json events = Json::array();
  for (const TracedProgram& traced : programs) {
    Process& process = processes[traced.component];
    if (process.id == 0) {
      process.id = static_cast<int>(processes.size());
      events.push_back(name_event("process_name", traced.component, process.id, 0));
    }
    const int thread = ++process.threads;
    events.push_back(name_event("thread_name", traced.program, process.id, thread));
    for (const runtime::StepTime& step : traced.steps) {
      events.push_back(step_event(step, process.end_s, process.id, thread));
    }
    if (!traced.steps.empty()) {
      process.end_s += traced.steps.back().start_s + traced.steps.back().seconds;
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace difflet::bench
