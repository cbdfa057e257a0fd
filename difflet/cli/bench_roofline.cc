// difflet bench roofline.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "difflet/artifact/store.h"
#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/units.h"
#include "difflet/bench/roofline.h"
#include "difflet/bench/statistics.h"
#include "difflet/bench/trace.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/store_entries.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/writable.h"
#include "difflet/compile/component.h"
#include "difflet/compile/stored.h"
#include "difflet/compile/verify.h"

namespace difflet::cli {
namespace {

using compile::StagedExecutable;

// A loaded component and what it is run with.
struct Subject {
  std::string name, level;
  std::size_t bytes = 0;  // weights, activations and working memory
  std::unique_ptr<StagedExecutable> executable;
  compile::NamedTensors inputs;
};

struct Judged {
  std::string name, level;
  Clock run;  // medians
  std::vector<bench::Roofline> programs;
  std::vector<bench::TracedProgram> traced;
};

void check_together(const OptionValues& options) {
  const bool model = options.given("model");
  const bool stored = options.given("artifact");
  check(!(model && stored), ErrorCode::InvalidArgument,
        "--artifact names what is stored: it goes without --model");
  for (const char* name :
       {"component", "inputs", "width", "height", "n", "max-sequence-length", "dtype", "quant",
        "quant-groups", "variant", "backend", "cpu-level", "schedule-capacity"}) {
    check(model || !options.given(name), ErrorCode::InvalidArgument, "--{} needs --model", name);
  }
  for (const char* name : {"repeat", "trace"}) {
    check(model || stored || !options.given(name), ErrorCode::InvalidArgument,
          "--{} needs --model or --artifact", name);
  }
  if (options.given("trace")) {
    check_writable(options.text("trace"));
  }
}

std::string level_in(const std::map<std::string, std::string>& toolchain) {
  const auto found = toolchain.find("cpu_level");
  return found == toolchain.end() ? "" : found->second;
}

// Throws ResourceExhausted for what does not fit into memory.
void check_memory(const std::string& name, const runtime::MemoryReport& planned) {
  const std::size_t available = available_memory();
  check(available == 0 || planned.total() <= available, ErrorCode::ResourceExhausted,
        "{} needs {} (weights, activations and working memory), {} are available", name,
        readable_bytes(planned.total()), readable_bytes(available));
}

// The artifact of --artifact at its largest size.
Subject stored_subject(const OptionValues& options, Context& context) {
  const artifact::Store store(cache_dir(options));
  const std::string key = keys_of(store, {options.text("artifact")}).front();
  const artifact::Identity identity = manifest_of(store, key).identity;
  const artifact::Lookup found = store.find(identity);
  check(found.artifact.has_value(), ErrorCode::NotFound, "artifact {}: {}", key, found.reason);
  const artifact::Manifest& manifest = found.artifact->manifest();
  Subject subject{
      .name = key, .level = level_in(identity.toolchain), .executable = {}, .inputs = {}};
  if (const auto name = manifest.metadata.find("component"); name != manifest.metadata.end()) {
    subject.name = fmt::format("{} ({})", name->second, key);
  }
  const runtime::Backend& backend = backends::find(identity.backend);
  const runtime::BackendOptions load{.cpu_level = subject.level, .memory_limit = 0};
  const compile::StagedPrograms programs =
      compile::stored_programs(*found.artifact, 0, manifest.schedule_capacity);
  const runtime::MemoryReport planned = compile::planned_memory(programs, backend, context, load);
  check_memory(subject.name, planned);
  subject.bytes = planned.total();
  subject.executable = compile::load_stored(*found.artifact, programs, backend, context, load);
  subject.inputs = compile::noise_inputs(subject.executable->inputs());
  return subject;
}

Subject model_subject(const OptionValues& options, const Target& target, Context& context) {
  const compile::BuildOptions build = build_options(options);
  const compile::Prepared prepared(target.name, *target.folder, {target.shapes.front()}, 0, build,
                                   {}, context);
  const auto weights = target.folder->weights(context.threads, [] { check_stop(); });
  Subject subject{.name = target.name,
                  .level = level_in(build.backend->toolchain(build.backend_options)),
                  .bytes = prepared.planned().total(),
                  .executable = prepared.load(*weights),
                  .inputs = {}};
  subject.inputs = options.given("inputs") ? read_inputs(options.text("inputs"))
                                           : compile::noise_inputs(subject.executable->inputs());
  return subject;
}

// What --repeat runs took.
struct Samples {
  std::vector<double> wall, cpu;
  std::vector<std::string> programs;
  std::vector<std::vector<std::vector<runtime::StepTime>>> steps;  // [program][run]

  void add(const StagedExecutable& executable) {
    const auto profile = executable.profile();
    programs.resize(profile.size());
    steps.resize(profile.size());
    for (std::size_t p = 0; p < profile.size(); ++p) {
      programs[p] = profile[p].program;
      steps[p].push_back(profile[p].steps);
    }
  }
};

// What the products of the last run were computed with.
std::vector<bench::Arithmetic> arithmetics_of(const Subject& subject) {
  std::set<bench::Arithmetic> kinds;
  for (const auto& program : subject.executable->profile()) {
    for (const runtime::StepTime& step : program.steps) {
      if (step.flops > 0) {
        kinds.insert(bench::arithmetic_of_kernel(step.kernel, subject.level));
      }
    }
  }
  return {kinds.begin(), kinds.end()};
}

// One run that does not count, then --repeat of them, each between two looks at what the cores can do,
// which go into `ceilings`.
Samples run_samples(const OptionValues& options, const Subject& subject, int threads,
                    bench::Ceilings& ceilings) {
  Samples samples;
  bench::ArithmeticSamples rates;
  (void)subject.executable->run(subject.inputs);
  const std::vector<bench::Arithmetic> kinds = arithmetics_of(subject);
  const auto look = [&] { bench::refresh(ceilings, kinds, threads, rates); };
  look();
  for (std::int64_t i = 0; i < options.integer("repeat"); ++i) {
    check_stop();
    const Clock before = Clock::now();
    (void)subject.executable->run(subject.inputs);
    const Clock after = Clock::now();
    samples.wall.push_back(after.wall_s - before.wall_s);
    samples.cpu.push_back(after.cpu_s - before.cpu_s);
    samples.add(*subject.executable);
    look();
  }
  return samples;
}

Judged judge(const OptionValues& options, const Subject& subject, bench::Ceilings ceilings,
             int threads) {
  const Samples samples = run_samples(options, subject, threads, ceilings);
  Judged judged{.name = subject.name,
                .level = subject.level,
                .run = {bench::median(samples.wall), bench::median(samples.cpu)},
                .programs = {},
                .traced = {}};
  const bench::Bounds bounds{
      .ceilings = &ceilings,
      .threads = threads,
      .level = subject.level,
      .memory = bench::memory_that_holds(subject.bytes, ceilings.caches, threads)};
  std::size_t steps = 0;
  for (std::size_t p = 0; p < samples.programs.size(); ++p) {
    const auto median = bench::median_steps(samples.steps[p]);
    steps += median.size();
    judged.programs.push_back(bench::roofline(samples.programs[p], median, bounds));
    judged.traced.push_back({subject.name, samples.programs[p], median});
  }
  check(steps > 0, ErrorCode::Unsupported, "{}: the backend does not measure its steps",
        subject.name);
  return judged;
}

// Of the compute ceiling, by the CPU time of whole runs: what others take from this process does not
// count.
double cpu_share(const Judged& judged, int threads) {
  double compute_s = 0;
  for (const bench::Roofline& program : judged.programs) {
    compute_s += program.total.compute_s;
  }
  return judged.run.cpu_s > 0 ? compute_s * threads / judged.run.cpu_s : 0;
}

Json as_json(const Judged& judged, int threads) {
  Json programs = Json::array();
  for (const bench::Roofline& program : judged.programs) {
    programs.push_back(bench::roofline_json(program));
  }
  return {{"component", judged.name},
          {"level", judged.level},
          {"threads", threads},
          {"wall_s", judged.run.wall_s},
          {"cpu_s", judged.run.cpu_s},
          {"share_of_compute_ceiling_by_cpu_time", cpu_share(judged, threads)},
          {"programs", programs}};
}

void print_judged(const Judged& judged, int threads) {
  print(fmt::format(
      "\n{}, {}, {} threads\na run takes {:.2f} ms, {:.2f} ms of CPU time: by that it is "
      "at {:.1f} % of the compute ceiling\n",
      judged.name, judged.level, threads, judged.run.wall_s * 1e3, judged.run.cpu_s * 1e3,
      100 * cpu_share(judged, threads)));
  for (const bench::Roofline& program : judged.programs) {
    print(bench::roofline_text(program));
  }
}

// `targets` are those of --model, if it is given.
std::vector<Judged> judge_all(const OptionValues& options, const std::optional<Targets>& targets,
                              const bench::Ceilings& ceilings, Context& context) {
  std::vector<Judged> all;
  if (options.given("artifact")) {
    all.push_back(
        judge(options, stored_subject(options, context), ceilings, context.threads.size()));
  } else if (targets) {
    for (const Target& target : targets->all()) {
      all.push_back(judge(options, model_subject(options, target, context), ceilings,
                          context.threads.size()));
    }
  }
  return all;
}

void write_trace(const std::string& path, const std::vector<Judged>& all) {
  std::vector<bench::TracedProgram> programs;
  for (const Judged& judged : all) {
    programs.insert(programs.end(), judged.traced.begin(), judged.traced.end());
  }
  const std::string text = bench::chrome_trace(programs).dump();
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

}  // namespace

void run_bench_roofline(const OptionValues& options) {
  check_together(options);
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  std::vector<int> counts{1};
  if (threads.size() > 1) {
    counts.push_back(threads.size());
  }
  // Before the ceilings, which take a while: what is not there is refused at once.
  std::optional<Targets> targets;
  if (options.given("artifact")) {
    (void)keys_of(artifact::Store(cache_dir(options)), {options.text("artifact")});
  }
  if (options.given("model")) {
    targets.emplace(options, context);
    const compile::BuildOptions build = build_options(options);
    (void)build.backend->toolchain(build.backend_options);
  }
  const bench::Ceilings ceilings = bench::measure_ceilings(counts);
  check_stop();
  if (!options.flag("json")) {
    print(bench::ceilings_text(ceilings));
  }
  const std::vector<Judged> all = judge_all(options, targets, ceilings, context);
  if (options.given("trace")) {
    write_trace(options.text("trace"), all);
  }
  Json components = Json::array();
  for (const Judged& judged : all) {
    components.push_back(as_json(judged, threads.size()));
    if (!options.flag("json")) {
      print_judged(judged, threads.size());
    }
  }
  if (options.flag("json")) {
    print_event({{"ceilings", bench::ceilings_json(ceilings)}, {"components", components}});
  }
}

}  // namespace difflet::cli
