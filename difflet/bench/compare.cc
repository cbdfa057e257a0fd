#include "difflet/bench/compare.h"

#include <algorithm>
#include <array>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/bench/report.h"

namespace difflet::bench {
namespace {

std::string title(const Scenario& scenario) {
  return scenario.point
             ? fmt::format("{} {}={}", scenario.name, scenario.point->field, scenario.point->value)
             : scenario.name;
}

// The point of the same name, value of its sweep and threads.
const PointEntry* find_point(const ResultFile& result, const Scenario& wanted) {
  const auto found = std::ranges::find_if(result.points, [&](const PointEntry& point) {
    return title(point.scenario) == title(wanted) && point.scenario.threads == wanted.threads;
  });
  return found == result.points.end() ? nullptr : &*found;
}

const EngineEntry* find_engine(const PointEntry& point, const std::string& name) {
  const auto found = std::ranges::find(point.engines, name, &EngineEntry::engine);
  return found == point.engines.end() ? nullptr : &*found;
}

bool positive(const std::vector<double>& samples) {
  return !samples.empty() && std::ranges::all_of(samples, [](double v) { return v > 0; });
}

void add_change(Comparison& comparison, const Change& base, const std::string& metric,
                const std::vector<double>& before, const std::vector<double>& after) {
  if (!positive(before) || !positive(after)) {
    return;
  }
  Change change = base;
  change.metric = metric;
  change.before = median(before);
  change.after = median(after);
  change.ratio = median_ratio(after, before);
  comparison.changes.push_back(std::move(change));
}

void compare_engines(Comparison& comparison, const Scenario& scenario, const EngineEntry& before,
                     const EngineEntry& after) {
  const Change base{.scenario = title(scenario),
                    .threads = scenario.threads,
                    .engine = after.engine,
                    .metric = {},
                    .ratio = {}};
  for (const char* metric : {"main", "cold", "warm", "load"}) {
    const auto a = before.metrics.find(metric);
    const auto b = after.metrics.find(metric);
    if (a == before.metrics.end() || b == after.metrics.end()) {
      continue;
    }
    add_change(comparison, base, fmt::format("{} wall", metric), a->second.wall_s,
               b->second.wall_s);
    add_change(comparison, base, fmt::format("{} CPU", metric), a->second.cpu_s, b->second.cpu_s);
  }
  add_change(comparison, base, "peak", {static_cast<double>(before.peak_bytes)},
             {static_cast<double>(after.peak_bytes)});
}

void note_machines(Comparison& comparison, const Json& before, const Json& after) {
  constexpr std::array kDecides{"cpu",    "level",      "cores",   "usable_cores",
                                "memory", "huge_pages", "compiler"};
  for (const char* key : kDecides) {
    const Json a = before.value(key, Json());
    const Json b = after.value(key, Json());
    if (a != b) {
      comparison.notes.push_back(
          fmt::format("another machine: {}: {} and {}", key,
                      a.dump(-1, ' ', false, Json::error_handler_t::replace),
                      b.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
  }
}

std::string value_text(const std::string& metric, double value) {
  return metric == "peak" ? readable_bytes(static_cast<std::size_t>(value)) : short_seconds(value);
}

}  // namespace

Comparison compare_results(const ResultFile& before, const ResultFile& after) {
  Comparison comparison;
  note_machines(comparison, before.machine, after.machine);
  for (const PointEntry& point : after.points) {
    const std::string name = title(point.scenario);
    const PointEntry* old = find_point(before, point.scenario);
    if (old == nullptr) {
      comparison.notes.push_back(
          fmt::format("{}, {} threads: only in the second result", name, point.scenario.threads));
      continue;
    }
    check(scenario_digest(old->scenario) == scenario_digest(point.scenario),
          ErrorCode::InvalidArgument,
          "scenario '{}' measures something else in the two results: nothing can be said of it",
          name);
    for (const EngineEntry& engine : point.engines) {
      const EngineEntry* other = find_engine(*old, engine.engine);
      if (other == nullptr || other->status != EngineStatus::Ok ||
          engine.status != EngineStatus::Ok) {
        comparison.notes.push_back(
            fmt::format("{}, {}: not measured in both", name, engine.engine));
        continue;
      }
      compare_engines(comparison, point.scenario, *other, engine);
    }
  }
  check(!comparison.changes.empty(), ErrorCode::InvalidArgument,
        "the two results have no scenario and engine in common that both measured");
  return comparison;
}

std::string comparison_report(const Comparison& comparison, double bound) {
  std::string text;
  for (const std::string& note : comparison.notes) {
    text += fmt::format("note: {}\n", note);
  }
  std::string last;
  for (const Change& change : comparison.changes) {
    const std::string head = fmt::format("{}, {} thread{}, {}\n", change.scenario, change.threads,
                                         change.threads == 1 ? "" : "s", change.engine);
    text += head == last ? "" : head;
    last = head;
    text +=
        fmt::format("  {:<14} {:>10} -> {:>10}   {:.3f} [{:.3f} {:.3f}]{}\n", change.metric,
                    value_text(change.metric, change.before),
                    value_text(change.metric, change.after), change.ratio.value, change.ratio.low,
                    change.ratio.high, change.is_regression(bound) ? "  REGRESSION" : "");
  }
  return text;
}

}  // namespace difflet::bench
