// The embedded default backend: planned execution on the CPU with kernels for its instruction set.
#pragma once

#include "difflet/graph/target.h"
#include "difflet/runtime/backend.h"

namespace difflet::cpu {

// The code of its programs is the prepared graph in text form, which is planned again when it is
// loaded. Programs are of one rank.
class CpuBackend : public runtime::Backend {
 public:
  using runtime::Backend::explain;
  using runtime::Backend::load;
  using runtime::Backend::plan;
  std::string_view name() const noexcept override { return "cpu"; }
  std::string describe(const runtime::BackendOptions& options) const override;
  std::map<std::string, std::string> toolchain(
      const runtime::BackendOptions& options) const override;
  runtime::CompiledProgram compile(const graph::Graph& graph, Context& context,
                                   const runtime::BackendOptions& options) const override;
  void pack(const runtime::CompiledProgram& program, std::int64_t rank,
            const runtime::WeightSource& weights, runtime::PieceSink& sink, Context& context,
            const runtime::BackendOptions& options) const override;
  std::unique_ptr<runtime::Executable> load(
      const runtime::CompiledProgram& program,
      std::vector<std::shared_ptr<const runtime::PackedWeights>> weights, Context& context,
      const runtime::BackendOptions& options) const override;
  runtime::MemoryReport plan(const runtime::CompiledProgram& program, Context& context,
                             const runtime::BackendOptions& options) const override;
  std::vector<std::string> explain(const runtime::CompiledProgram& program, Context& context,
                                   const runtime::BackendOptions& options) const override;
};

// The composites that run natively, by dtype.
class CpuTarget : public graph::Target {
 public:
  std::string_view name() const noexcept override { return "cpu"; }
  std::optional<graph::Refusal> claims(const graph::Op& op,
                                       std::span<const graph::Type> operands) const override;
};

// The composites of a graph that CpuTarget refuses, each with its place and the reason.
std::vector<std::string> refusals(const graph::Graph& graph);

// Fusions, expansion of what the CPU refuses, clean-up: the graph that the planner sees.
graph::Graph prepare(const graph::Graph& graph);

}  // namespace difflet::cpu
