// A FLUX-width stack (3072 wide, 24 heads; 2 double and 4 single blocks unless told otherwise) through
// the cpu backend, beside the machine's own ceiling of the same level, measured in the same run.
//
//   flux_stack [--tokens N] [--text N] [--level NAME] [--dtype bf16|f32] [--threads N] [--repeat N]
//              [--double N] [--single N] [--profile]
//   flux_stack --ahead [...]: the milliseconds of tracing, compiling and reading a program back
//
// Prints one JSON line: the median rate by CPU time and by wall time, its share of the ceiling, peak
// memory against weights + arena.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/base/context.h"
#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/bench/ceilings.h"
#include "difflet/bench/op_groups.h"
#include "difflet/bench/random_weights.h"
#include "difflet/bench/statistics.h"
#include "difflet/models/flux/transformer.h"

namespace {

using namespace difflet;  // NOLINT(google-build-using-namespace): a program, not a header

struct Options {
  std::int64_t tokens = 1024, text = 512, threads = 1, repeat = 5, doubles = 2, singles = 4;
  std::string level, dtype = "bf16";
  bool profile = false, ahead = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--profile" || key == "--ahead") {
      (key == "--profile" ? o.profile : o.ahead) = true;
      continue;
    }
    check(i + 1 < argc, ErrorCode::InvalidArgument, "{} needs a value", key);
    const std::string value = argv[++i];
    const auto number = [&] { return std::strtoll(value.c_str(), nullptr, 10); };
    if (key == "--tokens")
      o.tokens = number();
    else if (key == "--text")
      o.text = number();
    else if (key == "--threads")
      o.threads = number();
    else if (key == "--repeat")
      o.repeat = number();
    else if (key == "--double")
      o.doubles = number();
    else if (key == "--single")
      o.singles = number();
    else if (key == "--level")
      o.level = value;
    else if (key == "--dtype")
      o.dtype = value;
    else
      fail(ErrorCode::InvalidArgument, "unknown option {}", key);
  }
  return o;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// Products of the blocks and attention, two operations a multiply-add; embedders and norms left out.
double block_flops(const Options& o, const flux::Config& c) {
  const auto d = static_cast<double>(c.width());
  const auto s = static_cast<double>(o.tokens + o.text);
  const auto blocks = static_cast<double>(o.doubles + o.singles);
  return blocks * (24 * d * d * s + 4 * s * s * d);
}

// The best of o.repeat calls, in milliseconds.
template <typename F>
double best_ms(const Options& o, const F& f) {
  double best = 1e9;
  for (std::int64_t i = 0; i < o.repeat; ++i) {
    const double start = now();
    f();
    best = std::min(best, (now() - start) * 1e3);
  }
  return best;
}

graph::Graph trace(const Options& o, const flux::Config& config) {
  const DType dtype = o.dtype == "f32" ? DType::F32 : DType::BF16;
  const models::ShapeMap shapes{
      {"hidden_states", Shape{1, o.tokens, config.in_channels}},
      {"encoder_hidden_states", Shape{1, o.text, config.joint_attention_dim}},
      {"pooled_projections", Shape{1, config.pooled_projection_dim}},
      {"timestep", Shape{1}},
      {"img_ids", Shape{o.tokens, 3}},
      {"txt_ids", Shape{o.text, 3}}};
  return flux::Transformer(config).trace(shapes, dtype, {});
}

int ahead(const Options& o, const flux::Config& config, Context& context) {
  const cpu::CpuBackend backend;
  const runtime::BackendOptions options{.cpu_level = o.level};
  const graph::Graph g = trace(o, config);
  const runtime::CompiledProgram program = backend.compile(g, context, options);
  const graph::Graph prepared = graph::parse(program.code);
  Json line;
  line["nodes"] = prepared.nodes().size();
  line["code_bytes"] = program.code.size();
  line["trace_ms"] = best_ms(o, [&] { (void)trace(o, config); });
  line["passes_ms"] = best_ms(o, [&] { (void)cpu::prepare(g); });
  line["print_ms"] = best_ms(o, [&] { (void)graph::print(prepared); });
  line["compile_ms"] = best_ms(o, [&] { (void)backend.compile(g, context, options); });
  line["parse_ms"] = best_ms(o, [&] { (void)graph::parse(program.code); });
  line["parse_and_plan_ms"] = best_ms(o, [&] { (void)backend.plan(program, context, options); });
  fmt::print("{}\n", line.dump());
  return 0;
}

int run(const Options& o) {
  flux::Config config;
  config.num_layers = o.doubles;
  config.num_single_layers = o.singles;
  Log log(LogLevel::Warning);
  ThreadPool threads(static_cast<int>(o.threads));
  Context context{log, threads};
  if (o.ahead) {
    return ahead(o, config, context);
  }
  const graph::Graph g = trace(o, config);
  const double load_start = now();
  const auto executable =
      cpu::CpuBackend().load(g, bench::RandomWeights(), context, {.cpu_level = o.level});
  const double load_s = now() - load_start;
  std::vector<HostTensor> inputs;
  unsigned seed = 0;
  for (const graph::NodeId id : g.inputs()) {
    const auto& input = std::get<graph::Input>(g.node(id).op);
    inputs.push_back(bench::random_tensor(input.shape, ++seed).to(input.dtype));
  }
  const cpu::Level level = o.level.empty() ? cpu::detect_level() : *cpu::parse_level(o.level);
  const bench::Arithmetic arithmetic = bench::arithmetic_of_level(
      cpu::level_name(level), o.dtype == "bf16" ? DType::BF16 : DType::F32);
  std::vector<double> cpu_s, wall_s, ceiling;
  executable->run(inputs);
  for (std::int64_t i = 0; i < o.repeat; ++i) {
    ceiling.push_back(bench::ceiling_gflops(arithmetic, static_cast<int>(o.threads)));
    const double c0 = bench::process_cpu_seconds();
    const double w0 = now();
    executable->run(inputs);
    wall_s.push_back(now() - w0);
    cpu_s.push_back(bench::process_cpu_seconds() - c0);
  }
  const double gflop = block_flops(o, config) / 1e9;
  const double per_thread = gflop / bench::median(cpu_s);
  const runtime::MemoryReport memory = executable->memory();
  Json line;
  line["tokens"] = o.tokens;
  line["text"] = o.text;
  line["dtype"] = o.dtype;
  line["level"] = std::string(cpu::level_name(level));
  line["threads"] = o.threads;
  line["load_s"] = load_s;
  line["gflop"] = gflop;
  line["cpu_s"] = bench::median(cpu_s);
  line["wall_s"] = bench::median(wall_s);
  line["gflops_per_thread"] = per_thread;
  line["ceiling_per_thread"] = bench::median(ceiling);
  line["share"] = per_thread / bench::median(ceiling);
  line["weight_bytes"] = memory.weight_bytes;
  line["arena_bytes"] = memory.arena_bytes;
  line["scratch_bytes"] = memory.scratch_bytes;
  line["peak_rss_bytes"] = peak_rss();
  line["over_plan_mb"] =
      (peak_rss() - static_cast<double>(memory.weight_bytes + memory.arena_bytes)) / (1 << 20);
  fmt::print("{}\n", line.dump());
  if (o.profile) {
    for (const bench::OpGroup& group : bench::group_steps(executable->profile())) {
      fmt::print("{:<36} {:5} steps {:10.3f} ms {:8.1f} GFLOP/s {:8.1f} GB/s\n", group.kernel,
                 group.steps, group.seconds * 1e3, group.flops / group.seconds / 1e9,
                 group.bytes / group.seconds / 1e9);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const difflet::Error& e) {
    fmt::print(stderr, "flux_stack: {}\n", e.message());
    return difflet::exit_status(e.code());
  }
}
