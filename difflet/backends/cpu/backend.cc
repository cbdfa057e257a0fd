#include "difflet/backends/cpu/backend.h"

#include <utility>

#include <dnnl.hpp>

#include "difflet/backends/cpu/executable.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/weights.h"
#include "difflet/base/error.h"
#include "difflet/runtime/checks.h"

namespace difflet::cpu {
namespace {

// Of the code and of the weights' layouts; layout_test.cc says when to raise it.
constexpr std::string_view kProgramFormat = "2";

Level choose_level(const std::string& name) {
  if (name.empty()) {
    return detect_level();
  }
  const Level best = highest_level();
  const auto level = parse_level(name);
  check(level.has_value(), ErrorCode::InvalidArgument,
        "unknown cpu level '{}': scalar, avx2, avx512, avx512vnni, avx512bf16 or amx", name);
  check(*level <= best, ErrorCode::Unsupported, "cpu level {} is not available: this chip has {}",
        name, level_name(best));
  return *level;
}

PlanOptions plan_options(Level level, const Context& context,
                         const runtime::BackendOptions& options) {
  return {
      .level = level, .threads = context.threads.size(), .little_scratch = options.little_scratch};
}

// A program's code, read and planned.
struct Planned {
  graph::Graph graph;
  Plan plan;
};

Planned read_program(const runtime::CompiledProgram& program, const Context& context,
                     const runtime::BackendOptions& options) {
  const Level level = choose_level(options.cpu_level);
  check(program.mesh.ranks() == 1, ErrorCode::Unsupported,
        "the cpu backend runs one rank, program '{}' has {}", program.name, program.mesh.ranks());
  Planned p{.graph = runtime::read_code(program), .plan = {}};
  p.plan = Planner(p.graph, plan_options(level, context, options)).build();
  runtime::check_pieces(program, p.plan.pieces());
  return p;
}

}  // namespace

std::string CpuBackend::describe(const runtime::BackendOptions& options) const {
  return fmt::format("{}: {}", name(), level_name(choose_level(options.cpu_level)));
}

std::map<std::string, std::string> CpuBackend::toolchain(
    const runtime::BackendOptions& options) const {
  const dnnl_version_t* onednn = dnnl_version();
  return {{"cpu_level", std::string(level_name(choose_level(options.cpu_level)))},
          {"onednn", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
          {"program_format", std::string(kProgramFormat)}};
}

runtime::CompiledProgram CpuBackend::compile(const graph::Graph& graph, Context& context,
                                             const runtime::BackendOptions& options) const {
  check(graph.mesh().ranks() == 1, ErrorCode::Unsupported,
        "the cpu backend runs one rank, the program was traced for {}", graph.mesh().ranks());
  const Level level = choose_level(options.cpu_level);
  const graph::Graph prepared = prepare(graph);
  const Plan plan = Planner(prepared, plan_options(level, context, options)).build();
  return {.name = prepared.name(),
          .mesh = prepared.mesh(),
          .inputs = runtime::input_ports(prepared),
          .outputs = runtime::output_ports(prepared),
          .pieces = plan.pieces(),
          .code = graph::print(prepared),
          .notes = refusals(graph)};
}

void CpuBackend::pack(const runtime::CompiledProgram& program, std::int64_t rank,
                      const runtime::WeightSource& weights, runtime::PieceSink& sink,
                      Context& context, const runtime::BackendOptions& options) const {
  check(rank == 0, ErrorCode::InvalidArgument, "program '{}' has one rank, there is no rank {}",
        program.name, rank);
  const Planned p = read_program(program, context, options);
  pack_weights(p.plan, p.graph, weights, sink, context.threads);
}

std::unique_ptr<runtime::Executable> CpuBackend::load(
    const runtime::CompiledProgram& program,
    std::vector<std::shared_ptr<const runtime::PackedWeights>> weights, Context& context,
    const runtime::BackendOptions& options) const {
  Planned p = read_program(program, context, options);
  runtime::check_weights(program, weights);
  runtime::check_limit(program, memory_of(p.plan, context.threads.size()), options);
  return std::make_unique<CpuExecutable>(std::move(p.graph), std::move(p.plan),
                                         std::move(weights[0]), context.threads);
}

runtime::MemoryReport CpuBackend::plan(const runtime::CompiledProgram& program, Context& context,
                                       const runtime::BackendOptions& options) const {
  return memory_of(read_program(program, context, options).plan, context.threads.size());
}

std::vector<std::string> CpuBackend::explain(const runtime::CompiledProgram& program,
                                             Context& context,
                                             const runtime::BackendOptions& options) const {
  return lines_of(read_program(program, context, options).plan);
}

}  // namespace difflet::cpu
