#include "difflet/bench/metrics.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/bench/roofline.h"

namespace difflet::bench {
namespace {

// The median of CPU and of wall, each by itself.
Duration median_step(const std::vector<Duration>& steps) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    wall.push_back(steps[i].wall_s);
    cpu.push_back(steps[i].cpu_s);
  }
  return {median(wall), median(cpu)};
}

// f(kernel, flops, seconds) for each group of a profile.
template <typename F>
void each_kernel(const Json& profile, const F& f) {
  if (!profile.is_object() || !profile.contains("groups")) {
    return;
  }
  for (const Json& group : profile["groups"]) {
    const auto number = [&group](const char* key) {
      const auto found = group.find(key);
      return found != group.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    const auto name = group.is_object() ? group.find("kernel") : group.end();
    if (name != group.end() && name->is_string()) {
      f(std::string_view(name->get_ref<const std::string&>()), number("flops"), number("seconds"));
    }
  }
}

Json duration_json(const Duration& d) { return {{"wall_s", d.wall_s}, {"cpu_s", d.cpu_s}}; }

}  // namespace

Duration main_time(const Scenario& scenario, const RunRecord& run) {
  if (scenario.component.empty()) {
    return run.total;
  }
  if (run.steps.size() > 1) {
    return median_step(run.steps);
  }
  const std::string_view stage = scenario.component == "transformer" ? "denoise"
                                 : scenario.component == "vae"       ? "decode"
                                                                     : "encode";
  const auto found = std::ranges::find(run.stages, stage, &StageTime::name);
  return found != run.stages.end() ? found->time : run.total;
}

void add_sample(std::map<std::string, Series>& metrics, const std::string& name,
                const Duration& time) {
  Series& series = metrics[name];
  series.wall_s.push_back(std::max(time.wall_s, 0.0));
  series.cpu_s.push_back(std::max(time.cpu_s, 0.0));
}

std::map<std::string, Series> request_metrics(const Scenario& scenario,
                                              const std::vector<RunRecord>& runs) {
  std::map<std::string, Series> metrics;
  for (const RunRecord& run : runs) {
    add_sample(metrics, "main", main_time(scenario, run));
    add_sample(metrics, "run", run.total);
    for (const StageTime& stage : run.stages) {
      add_sample(metrics, stage.name, stage.time);
    }
    for (std::size_t i = 1; i < run.steps.size(); ++i) {
      add_sample(metrics, "step", run.steps[i]);
    }
  }
  return metrics;
}

Json request_json(const RunRecord& run) {
  Json json{{"total", duration_json(run.total)}};
  json["stages"] = Json::array();
  for (const StageTime& stage : run.stages) {
    json["stages"].push_back(
        {{"name", stage.name}, {"wall_s", stage.time.wall_s}, {"cpu_s", stage.time.cpu_s}});
  }
  json["steps"] = Json::array();
  for (const Duration& step : run.steps) {
    json["steps"].push_back(duration_json(step));
  }
  return json;
}

std::string level_of(const Json& hello) {
  const Json versions = hello.is_object() ? hello.value("versions", Json::object()) : Json();
  const auto level = versions.is_object() ? versions.find("cpu_level") : versions.end();
  return level != versions.end() && level->is_string() ? level->get<std::string>() : "";
}

std::set<Arithmetic> arithmetics_of(const Json& profile, std::string_view level) {
  std::set<Arithmetic> all;
  each_kernel(profile, [&](std::string_view kernel, double flops, double /*seconds*/) {
    if (flops > 0) {
      all.insert(arithmetic_of_kernel(kernel, level));
    }
  });
  return all;
}

Share share_of(const Json& profile, std::string_view kind, std::string_view suffix,
               std::string_view level, const Rates& ceilings) {
  Share share;
  each_kernel(profile, [&](std::string_view kernel, double flops, double seconds) {
    const auto ceiling = ceilings.find(arithmetic_of_kernel(kernel, level));
    const bool counts = flops <= 0 || (ceiling != ceilings.end() && ceiling->second > 0);
    if (counts && kernel.starts_with(kind) && kernel.ends_with(suffix)) {
      share.flops += flops;
      share.seconds += seconds;
      share.least_s += flops > 0 ? flops / 1e9 / ceiling->second : 0;
    }
  });
  return share;
}

}  // namespace difflet::bench
