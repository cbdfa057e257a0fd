// The definition of every op: a naive interpreter that expands all composites. One rank as a Backend,
// any number of ranks of one process through run_ranks().
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "difflet/runtime/backend.h"

namespace difflet::reference {

// The code of its programs is the graph with all composites expanded, in text form; the pieces are the
// parameters' parts of a rank in the dtype of the program. Compiles and packs for any mesh, loads
// programs of one rank.
class ReferenceBackend final : public runtime::Backend {
 public:
  using runtime::Backend::explain;
  using runtime::Backend::load;
  using runtime::Backend::plan;
  std::string_view name() const noexcept override { return "reference"; }
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
};

// Runs a program of ReferenceBackend on every rank of its mesh, one thread each; `weights` (one each),
// `inputs` and the result are by rank. When a rank throws, the others stop and its exception is
// rethrown with the rank's number.
std::vector<std::vector<HostTensor>> run_ranks(
    const runtime::CompiledProgram& program,
    std::span<const std::shared_ptr<const runtime::PackedWeights>> weights,
    const std::vector<std::vector<HostTensor>>& inputs);
// Compiles, packs and runs.
std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<std::vector<HostTensor>>& inputs);
// The same inputs on every rank.
std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<HostTensor>& inputs);

}  // namespace difflet::reference
