// The embedded default backend: planned execution on the CPU with kernels for its instruction set.
#pragma once

#include "difflet/graph/target.h"
#include "difflet/runtime/backend.h"

namespace difflet::cpu {

class CpuBackend : public runtime::Backend {
 public:
  std::string_view name() const noexcept override { return "cpu"; }
  std::string describe(const runtime::LoadOptions& options) const override;
  std::vector<std::string> explain(const graph::Graph& graph, Context& context,
                                   const runtime::LoadOptions& options) const override;
  runtime::MemoryReport plan(const graph::Graph& graph, Context& context,
                             const runtime::LoadOptions& options) const override;
  std::unique_ptr<runtime::Executable> load(const graph::Graph& graph,
                                            const runtime::WeightSource& weights, Context& context,
                                            const runtime::LoadOptions& options) const override;
};

// The composites that run natively, by dtype.
class CpuTarget : public graph::Target {
 public:
  std::string_view name() const noexcept override { return "cpu"; }
  std::optional<graph::Refusal> claims(const graph::Op& op,
                                       std::span<const graph::Type> operands) const override;
};

// Fusions, expansion of what the CPU refuses, clean-up: the graph that the planner sees.
graph::Graph prepare(const graph::Graph& graph);

}  // namespace difflet::cpu
