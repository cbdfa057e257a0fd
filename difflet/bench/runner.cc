#include "difflet/bench/runner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/timings.h"
#include "difflet/bench/ceilings.h"
#include "difflet/bench/inputs.h"
#include "difflet/bench/machine.h"
#include "difflet/bench/metrics.h"
#include "difflet/bench/process.h"
#include "difflet/bench/resolved.h"
#include "difflet/bench/windows.h"
#include "difflet/io/safetensors.h"
#include "difflet/tensor/compare.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

// A file name of any engine's name.
std::string file_name(const std::string& engine) {
  std::string name = engine;
  std::ranges::replace_if(
      name, [](char c) { return c == ':' || c == '+' || c == '=' || c == '/'; }, '_');
  return name;
}

class PointRunner {
 public:
  PointRunner(const Scenario& scenario, const RunOptions& options, Log& log) : options_(options) {
    entry_.scenario = scenario;
    for (const EngineSpec& engine : options.engines) {
      EngineEntry one;
      one.engine = engine.name;
      entry_.engines.push_back(std::move(one));
    }
    folder_ = options.work / scenario.name;
    fs::create_directories(folder_);
    model_ = fs::canonical(options.model_folder(scenario.model));
    if (!scenario.component.empty()) {
      inputs_ = folder_ / "inputs.safetensors";
      io::write_safetensors(inputs_, component_inputs(scenario, model_, log));
    }
  }

  PointEntry run() {
    entry_.load_before = load_average();
    // The first engine with as many others at a time as may be loaded together.
    const std::size_t others = std::max<std::size_t>(options_.together, 2) - 1;
    std::size_t next = 1;
    do {
      std::vector<std::size_t> group{0};
      for (std::size_t i = 0; i < others && next < entry_.engines.size(); ++i) {
        group.push_back(next++);
      }
      take_turns(group);
    } while (next < entry_.engines.size() && entry_.engines.front().status == EngineStatus::Ok);
    for (std::size_t i = 0; i < entry_.engines.size() && options_.starts > 0; ++i) {
      start_anew(i);
    }
    entry_.load_after = load_average();
    return std::move(entry_);
  }

 private:
  struct Loaded {
    std::size_t index = 0;
    std::unique_ptr<EngineProcess> process;
    std::vector<RunRecord> runs;  // that count, one a round
  };

  const Scenario& scenario() const { return entry_.scenario; }
  ProcessLimits limits() const {
    return {.silence_s = options_.silence_s,
            .check_stop = options_.check_stop,
            .environment = options_.environment};
  }

  // Writes the engine's scenario and starts it.
  std::unique_ptr<EngineProcess> start(std::size_t index, std::int64_t runs) {
    EngineSpec engine = options_.engines[index];
    std::vector<std::string> words = engine_command(engine, options_.places);
    Resolved resolved = resolve(scenario(), engine);
    resolved.model = model_;
    resolved.inputs = inputs_;
    resolved.work = options_.work / engine.program;
    resolved.runs = runs;
    fs::create_directories(resolved.work);
    const fs::path file = folder_ / (file_name(engine.name) + ".json");
    const std::string text = resolved_json(resolved, scenario().name)
                                 .dump(1, ' ', false, Json::error_handler_t::replace);
    write_file_atomic(file, std::as_bytes(std::span(text)));
    words.insert(words.end(), {"--scenario", file.string()});
    return std::make_unique<EngineProcess>(words, folder_ / (file_name(engine.name) + ".log"),
                                           limits());
  }

  // f(), whose errors are the engine's. False when it failed.
  template <typename F>
  bool guarded(std::size_t index, const F& f) {
    try {
      f();
      return true;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::Cancelled || e.code() == ErrorCode::Internal) {
        throw;
      }
      EngineEntry& entry = entry_.engines[index];
      entry.status =
          e.code() == ErrorCode::Unsupported ? EngineStatus::Unavailable : EngineStatus::Failed;
      entry.message = e.message();
      tell(index, entry.message);
      return false;
    }
  }

  void tell(std::size_t index, const std::string& what) const {
    if (options_.tell) {
      options_.tell(fmt::format("{}, {}: {}: {}", scenario().name, describe(scenario()),
                                options_.engines[index].name, what));
    }
  }

  void load(Loaded& engine) {
    tell(engine.index, "loads");
    engine.process = start(engine.index, options_.pairs + 1);
    engine.process->wait_ready();
    EngineEntry& entry = entry_.engines[engine.index];
    const Session& session = engine.process->session();
    entry.hello = session.hello();
    entry.memory = session.memory();
    if (entry.metrics.empty()) {
      for (const StageTime& stage : session.loading()) {
        add_sample(entry.metrics, stage.name, stage.time);
      }
      add_sample(entry.metrics, "ready", {session.ready_s(), session.cpu_s()});
    }
    entry.ready_bytes = std::max(entry.ready_bytes, engine.process->high_water());
    tell(engine.index, "warms up");
    add_sample(entry.metrics, "first", main_time(scenario(), engine.process->run()));
  }

  // What a thread computes at most, now, with each arithmetic that the engine's kernels used in the
  // request before; for engines that say which kernels those are and how much they computed.
  void add_ceilings(const Loaded& engine) {
    const Session& session = engine.process->session();
    const std::string level = level_of(session.hello());
    if (level.empty()) {
      return;
    }
    for (const Arithmetic kind : arithmetics_of(session.runs().back().profile, level)) {
      if (chip_has(kind)) {
        entry_.engines[engine.index].ceilings[kind].push_back(
            ceiling_gflops(kind, static_cast<int>(scenario().threads)));
      }
    }
  }

  void one_run(Loaded& engine) {
    add_ceilings(engine);
    engine.runs.push_back(engine.process->run());
    add_ceilings(engine);
  }

  // Rounds in which each engine answers one request, forwards and backwards by turns, so that a machine
  // that slows down favours none.
  void take_turns(const std::vector<std::size_t>& group) {
    std::vector<Loaded> loaded;
    for (const std::size_t index : group) {
      Loaded engine{.index = index, .process = nullptr, .runs = {}};
      if (guarded(index, [&] { load(engine); })) {
        loaded.push_back(std::move(engine));
      }
    }
    const BusyWatch watch(loaded);
    std::set<std::size_t> failed;
    for (std::int64_t round = 0; round < options_.pairs; ++round) {
      for (std::size_t i = 0; i < loaded.size(); ++i) {
        Loaded& engine = loaded[round % 2 == 0 ? i : loaded.size() - 1 - i];
        if (!failed.contains(engine.index) && !guarded(engine.index, [&] { one_run(engine); })) {
          failed.insert(engine.index);
        }
      }
      if (options_.tell && !loaded.empty()) {
        options_.tell(fmt::format("{}, {}: round {} of {}", scenario().name, describe(scenario()),
                                  round + 1, options_.pairs));
      }
    }
    watch.finish(loaded, entry_.others_share);
    compare_outputs(loaded, failed);
    for (Loaded& engine : loaded) {
      keep(engine, failed.contains(engine.index));
    }
    add_ratios(loaded);
  }

  // What others than the engines and this process took of the cores.
  class BusyWatch {
   public:
    explicit BusyWatch(const std::vector<Loaded>& loaded)
        : busy_(busy_seconds()), own_(own_seconds(loaded)) {}
    void finish(const std::vector<Loaded>& loaded, std::optional<double>& share) const {
      const std::optional<double> busy = busy_seconds();
      const double wall = watch_.seconds();
      if (busy && busy_ && wall > 0.1) {
        const double all = wall * static_cast<double>(machine_cores());
        const double others = (*busy - *busy_) - (own_seconds(loaded) - own_);
        share = std::max(share.value_or(0), std::clamp(others / all, 0.0, 1.0));
      }
    }

   private:
    static double own_seconds(const std::vector<Loaded>& loaded) {
      double seconds = process_cpu_seconds();
      for (const Loaded& engine : loaded) {
        seconds += engine.process->session().cpu_s();
      }
      return seconds;
    }
    Stopwatch watch_;
    std::optional<double> busy_;
    double own_;
  };

  void keep(Loaded& engine, bool failed) {
    EngineEntry& entry = entry_.engines[engine.index];
    for (auto& [name, series] : request_metrics(scenario(), engine.runs)) {
      Series& all = entry.metrics[name];
      all.wall_s.insert(all.wall_s.end(), series.wall_s.begin(), series.wall_s.end());
      all.cpu_s.insert(all.cpu_s.end(), series.cpu_s.begin(), series.cpu_s.end());
    }
    for (const RunRecord& run : engine.runs) {
      entry.raw.push_back(request_json(run));
      entry.outputs = run.outputs;
      entry.profile = run.profile;
    }
    if (!failed) {
      entry.peak_bytes = std::max(entry.peak_bytes, engine.process->finish());
    }
    engine.process.reset();
  }

  void add_ratios(const std::vector<Loaded>& loaded) {
    if (loaded.empty() || loaded.front().index != 0) {
      return;
    }
    const Loaded& baseline = loaded.front();
    for (std::size_t i = 1; i < loaded.size(); ++i) {
      const std::size_t pairs = std::min(loaded[i].runs.size(), baseline.runs.size());
      std::vector<double> wall;
      std::vector<double> wall_0;
      std::vector<double> cpu;
      std::vector<double> cpu_0;
      for (std::size_t k = 0; k < pairs; ++k) {
        const Duration one = main_time(scenario(), loaded[i].runs[k]);
        const Duration base = main_time(scenario(), baseline.runs[k]);
        wall.push_back(one.wall_s);
        wall_0.push_back(base.wall_s);
        cpu.push_back(one.cpu_s);
        cpu_0.push_back(base.cpu_s);
      }
      add_ratio(loaded[i].index, "wall", wall, wall_0);
      add_ratio(loaded[i].index, "cpu", cpu, cpu_0);
    }
  }

  void add_ratio(std::size_t index, const std::string& metric, const std::vector<double>& samples,
                 const std::vector<double>& baseline) {
    const bool positive = std::ranges::all_of(baseline, [](double v) { return v > 0; });
    if (!samples.empty() && positive) {
      entry_.ratios.push_back({.engine = entry_.engines[index].engine,
                               .baseline = entry_.engines.front().engine,
                               .metric = metric,
                               .pairs = samples.size(),
                               .ratio = paired_ratio(samples, baseline)});
    }
  }

  // Each engine's last outputs against the first engine's.
  void compare_outputs(std::vector<Loaded>& loaded, std::set<std::size_t>& failed) {
    if (options_.compare == Compare::Times || loaded.empty() || loaded.front().index != 0) {
      return;
    }
    const auto path = [&](const Loaded& engine) {
      return folder_ / (file_name(entry_.engines[engine.index].engine) + ".safetensors");
    };
    for (Loaded& engine : loaded) {
      if (!failed.contains(engine.index) && !engine.runs.empty() &&
          !guarded(engine.index, [&] { engine.process->save(path(engine)); })) {
        failed.insert(engine.index);
      }
    }
    for (std::size_t i = 1; i < loaded.size(); ++i) {
      if (!failed.contains(loaded[i].index) && !failed.contains(0)) {
        guarded(loaded[i].index,
                [&] { compare_files(loaded[i].index, path(loaded[i]), path(loaded.front())); });
      }
    }
  }

  void compare_files(std::size_t index, const fs::path& one, const fs::path& baseline) {
    const io::SafetensorsFile a = io::SafetensorsFile::open(one);
    const io::SafetensorsFile b = io::SafetensorsFile::open(baseline);
    for (const auto& [name, wanted] : b.entries()) {
      OutputDifference d{.engine = entry_.engines[index].engine,
                         .baseline = entry_.engines.front().engine,
                         .output = name};
      const auto found = a.entries().find(name);
      if (found == a.entries().end()) {
        d.problem = "not there";
      } else if (found->second.shape != wanted.shape) {
        d.problem = fmt::format("{} instead of {}", found->second.shape.str(), wanted.shape.str());
      } else {
        const Difference difference = difflet::compare(a.tensor(name), b.tensor(name));
        d.cosine = difference.cosine;
        d.psnr = difference.psnr;
        d.relative = difference.relative;
      }
      entry_.differences.push_back(std::move(d));
    }
  }

  // From the start of a new process to its first output.
  void start_anew(std::size_t index) {
    EngineEntry& entry = entry_.engines[index];
    const auto measure = [&](const std::string& metric) {
      tell(index, metric + " start");
      const auto process = start(index, 1);
      const RunRecord& run = process->run();
      add_sample(entry.metrics, metric, {run.until_output_s, process->session().cpu_s()});
      (void)process->finish();
    };
    for (std::int64_t i = 0; i < options_.starts && entry.status == EngineStatus::Ok; ++i) {
      const bool dropped = drop_page_cache();
      if (!dropped && entry_.notes.empty()) {
        entry_.notes.emplace_back("the page cache cannot be dropped here: no cold starts");
      }
      guarded(index, [&] {
        if (dropped) {
          measure("cold");
        }
        measure("warm");
      });
    }
  }

  const RunOptions& options_;
  PointEntry entry_;
  fs::path folder_, model_, inputs_;
};

}  // namespace

PointEntry run_point(const Scenario& scenario, const RunOptions& options, Log& log) {
  return PointRunner(scenario, options, log).run();
}

}  // namespace difflet::bench
