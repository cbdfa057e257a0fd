#include "difflet/runtime/backend.h"

#include <utility>

#include "difflet/runtime/checks.h"

namespace difflet::runtime {

std::unique_ptr<Executable> Backend::load(const graph::Graph& graph, const WeightSource& weights,
                                          Context& context, const BackendOptions& options) const {
  const CompiledProgram program = compile(graph, context, options);
  if (options.memory_limit > 0) {
    check_limit(program, plan(program, context, options), options);
  }
  const CompiledProgram* const programs[] = {&program};
  std::vector<std::shared_ptr<const PackedWeights>> packed;
  for (std::int64_t rank = 0; rank < program.mesh.ranks(); ++rank) {
    auto memory = std::make_shared<MemoryWeights>(programs);
    pack(program, rank, weights, *memory, context, options);
    packed.push_back(std::move(memory));
  }
  return load(program, std::move(packed), context, options);
}

MemoryReport Backend::plan(const graph::Graph& graph, Context& context,
                           const BackendOptions& options) const {
  return plan(compile(graph, context, options), context, options);
}

std::vector<std::string> Backend::explain(const graph::Graph& graph, Context& context,
                                          const BackendOptions& options) const {
  return explain(compile(graph, context, options), context, options);
}

}  // namespace difflet::runtime
