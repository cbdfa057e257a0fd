// difflet bench run: engines side by side on pinned scenarios.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "difflet/artifact/lock.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/split.h"
#include "difflet/bench/engine_spec.h"
#include "difflet/bench/machine.h"
#include "difflet/bench/report.h"
#include "difflet/bench/result.h"
#include "difflet/bench/runner.h"
#include "difflet/bench/synthetic.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/writable.h"
#include "difflet/io/hub/repo_id.h"
#include "difflet/io/hub/snapshot.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the user

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;

// This program's file.
fs::path own_path() { return fs::read_symlink("/proc/self/exe"); }

// The source folder: where bench/scenarios is, above the current folder or above this program.
fs::path source_folder() {
  for (const fs::path& start : {fs::current_path(), own_path().parent_path()}) {
    for (fs::path folder = start;; folder = folder.parent_path()) {
      if (fs::is_directory(folder / "bench" / "scenarios")) {
        return folder;
      }
      if (!folder.has_relative_path()) {
        break;
      }
    }
  }
  return {};
}

std::vector<std::string> split(const std::string& text) {
  const auto parts = difflet::split(text, ',');
  return {parts.begin(), parts.end()};
}

std::vector<fs::path> all_scenarios(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A name of bench/scenarios, or a file.
fs::path scenario_file(const std::string& text, const fs::path& folder) {
  if (text.ends_with(".json")) {
    return text;
  }
  const fs::path file = folder / (text + ".json");
  if (!fs::exists(file)) {
    std::vector<std::string> names;
    for (const fs::path& one : all_scenarios(folder)) {
      names.push_back(one.stem().string());
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const auto near = nearest_name(text, views);
    fail(ErrorCode::NotFound, "--scenario: no '{}' in '{}': there are {}{}", text, folder.string(),
         fmt::join(names, ", "), near ? fmt::format("; did you mean {}?", *near) : "");
  }
  return file;
}

std::vector<bench::Scenario> read_scenarios(const OptionValues& options, const fs::path& source) {
  const fs::path folder = source / "bench" / "scenarios";
  std::vector<fs::path> files;
  for (const std::string& text : split(options.text("scenario"))) {
    if (text == "all") {
      const std::vector<fs::path> all = all_scenarios(folder);
      files.insert(files.end(), all.begin(), all.end());
    } else {
      files.push_back(scenario_file(text, folder));
    }
  }
  std::vector<bench::Scenario> scenarios;
  scenarios.reserve(files.size());
  for (const fs::path& file : files) {
    scenarios.push_back(
        bench::parse_scenario(read_text_file(file, std::size_t{1} << 20U), file.string()));
  }
  return scenarios;
}

std::vector<std::int64_t> thread_counts(const OptionValues& options) {
  std::vector<std::int64_t> counts;
  const auto given = options.optional_text("threads");
  for (const std::string& text : given ? split(*given) : std::vector<std::string>{}) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    check(error == std::errc{} && end == text.data() + text.size() && count >= 1 && count <= 1024,
          ErrorCode::InvalidArgument, "--threads: '{}' is not a number in 1 ... 1024", text);
    counts.push_back(count);
  }
  return counts;
}

fs::path hub_folder(const bench::ModelSource& model) {
  const io::hub::HubOptions hub = hub_options();
  const io::hub::RepoId id = io::hub::RepoId::parse(model.repository);
  const auto found = io::hub::find_snapshot(hub, id, model.revision, wanted_files(""));
  check(!found.folder.empty(), ErrorCode::NotFound,
        "'{}' is not complete in the hub's cache '{}' ({}): 'difflet download {} --revision {}' "
        "gets it",
        model.repository, hub.cache.string(), found.reason, model.repository, model.revision);
  return found.folder;
}

fs::path synthetic_folder(const bench::SyntheticFlux& recipe, const fs::path& work, Log& log) {
  const fs::path folder = work / "models" /
                          fmt::format("flux-{}-{}-{}-{}", recipe.doubles, recipe.singles,
                                      recipe.t5_layers, recipe.clip_layers);
  fs::create_directories(folder.parent_path());
  bench::write_synthetic(recipe, folder, log);
  return folder;
}

fs::path model_of(const bench::ModelSource& model, const fs::path& source, const fs::path& work,
                  Log& log) {
  if (model.synthetic) {
    return synthetic_folder(*model.synthetic, work, log);
  }
  if (!model.repository.empty()) {
    return hub_folder(model);
  }
  const fs::path folder =
      fs::path(model.folder).is_absolute() ? fs::path(model.folder) : source / model.folder;
  check(fs::is_directory(folder), ErrorCode::NotFound, "model: no folder '{}'", folder.string());
  return folder;
}

bench::RunOptions run_options(const OptionValues& options, const fs::path& source, Log& log) {
  bench::RunOptions run;
  run.engines = bench::parse_engines(options.text("engines"));
  run.places = {.difflet = own_path(),
                .adapters = options.given("adapters") ? fs::path(options.text("adapters"))
                                                      : source / "bench" / "adapters",
                .python = options.text("python"),
                .binaries = {}};
  if (options.given("sdcpp")) {
    run.places.binaries = bench::parse_binaries(options.text("sdcpp"));
  }
  for (bench::EngineSpec engine : run.engines) {
    (void)bench::engine_command(engine, run.places);
  }
  run.work = fs::absolute(options.text("work"));
  run.pairs = options.integer("pairs");
  run.starts = options.flag("cold") ? options.integer("starts") : 0;
  run.together = static_cast<std::size_t>(options.integer("together"));
  run.silence_s = options.number("timeout");
  run.compare =
      options.flag("verify-outputs") ? bench::Compare::TimesAndOutputs : bench::Compare::Times;
  run.model_folder = [source, work = run.work, &log](const bench::ModelSource& model) {
    return model_of(model, source, work, log);
  };
  run.check_stop = [] { check_stop(); };
  run.environment = environ;
  if (!options.flag("quiet")) {
    run.tell = [](const std::string& line) { print_message(line + "\n"); };
  }
  return run;
}

// Written after each point: what is there survives whatever comes.
void keep(const OptionValues& options, const bench::ResultFile& result) {
  const std::string text =
      bench::result_json(result).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_file_atomic(options.text("output"), std::as_bytes(std::span(text)));
}

// The engines that failed, in the order of the results.
std::vector<std::string> failures(const bench::ResultFile& result) {
  std::vector<std::string> all;
  for (const bench::PointEntry& point : result.points) {
    for (const bench::EngineEntry& engine : point.engines) {
      if (engine.status == bench::EngineStatus::Failed) {
        all.push_back(fmt::format("{} at {}", engine.engine, point.scenario.name));
      }
    }
  }
  return all;
}

}  // namespace

void run_bench_run(const OptionValues& options) {
  Log log(log_level(options));
  const fs::path source = source_folder();
  const std::vector<bench::Scenario> scenarios = read_scenarios(options, source);
  const std::vector<std::int64_t> threads = thread_counts(options);
  check_writable(options.text("output"));
  const bench::RunOptions run = run_options(options, source, log);
  fs::create_directories(run.work);

  bench::ResultFile result{
      .machine = bench::machine_json(), .started = artifact::utc_time(), .points = {}};
  for (const bench::Scenario& scenario : scenarios) {
    std::vector<bench::PointEntry> sweep;
    for (const bench::Scenario& point : bench::expand(scenario, threads)) {
      check_stop();
      sweep.push_back(bench::run_point(point, run, log));
      result.points.push_back(sweep.back());
      keep(options, result);
      print(bench::point_report(sweep.back()) + "\n");
    }
    if (sweep.front().scenario.point) {
      print(bench::sweep_report(sweep) + "\n");
    }
  }
  const std::vector<std::string> failed = failures(result);
  check(failed.empty(), ErrorCode::Unavailable, "these engines failed, all else is in '{}': {}",
        options.text("output"), fmt::join(failed, ", "));
}

}  // namespace difflet::cli
