// The definition of every op: a naive interpreter that expands all composites. One rank as a Backend,
// any number of ranks of one process through run_ranks().
#pragma once

#include "difflet/runtime/backend.h"

namespace difflet::reference {

class ReferenceBackend final : public runtime::Backend {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  runtime::MemoryReport plan(const graph::Graph& graph, Context& context,
                             const runtime::LoadOptions& options) const override;
  std::unique_ptr<runtime::Executable> load(const graph::Graph& graph,
                                            const runtime::WeightSource& weights, Context& context,
                                            const runtime::LoadOptions& options) const override;
};

// Runs the program on every rank of its mesh, one thread each; `inputs` and the result are by rank.
// When a rank throws, the others stop and its exception is rethrown with the rank's number.
std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<std::vector<HostTensor>>& inputs);
// The same inputs on every rank.
std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<HostTensor>& inputs);

}  // namespace difflet::reference
