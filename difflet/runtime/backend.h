// A backend: compiles a graph ahead of time, packs weights for what it compiled, and loads both into
// an executable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::runtime {

struct BackendOptions {
  // Spelling of --cpu-level; empty: what the chip has. Other backends refuse a value.
  std::string cpu_level;
  // Refuses to load more than this many bytes of weights, arena and scratch together; 0: no limit.
  std::size_t memory_limit = 0;
  // compile() makes a program of one picture that takes no more than this many bytes besides weights,
  // in bands of rows where need be (backends/bands); 0: no limit.
  std::size_t picture_memory_limit = 0;
  // Kernels that take little scratch where the fastest take tens of megabytes a thread. A program must be
  // planned, packed and loaded as it was compiled.
  bool little_scratch = false;
};

// Every function throws InvalidArgument or Unsupported for an option that cannot be.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  // Name and what runs: "cpu: avx512bf16".
  virtual std::string describe(const BackendOptions& /*options*/) const {
    return std::string(name());
  }
  // Versions and levels that decide code or the layout of weights, by name: {"cpu_level":
  // "avx512bf16", "onednn": "2.6.0", "program_format": "1"}. A program compiled under another
  // toolchain must not be loaded.
  virtual std::map<std::string, std::string> toolchain(const BackendOptions& options) const = 0;

  // Reads no weight. Throws Unsupported for what the backend does not run.
  virtual CompiledProgram compile(const graph::Graph& graph, Context& context,
                                  const BackendOptions& options) const = 0;
  // Fills, parameter by parameter in the order of program.pieces, each piece that the sink wants with
  // the part of `rank`; reads no parameter that has none. Calls weights.done(). Throws DataLoss for
  // NaN or Inf in a weight, naming the tensor.
  virtual void pack(const CompiledProgram& program, std::int64_t rank, const WeightSource& weights,
                    PieceSink& sink, Context& context, const BackendOptions& options) const = 0;
  // `weights`: one for each rank of the program's mesh, kept by the executable and read in place.
  // Throws DataLoss for a program that is damaged, made by another toolchain, or misses a piece;
  // ResourceExhausted over the limit.
  virtual std::unique_ptr<Executable> load(
      const CompiledProgram& program, std::vector<std::shared_ptr<const PackedWeights>> weights,
      Context& context, const BackendOptions& options) const = 0;
  // What load() takes; weight_bytes is the sum of the program's pieces.
  virtual MemoryReport plan(const CompiledProgram& program, Context& context,
                            const BackendOptions& options) const = 0;
  // Executable::explain() of the program that load() would make.
  virtual std::vector<std::string> explain(const CompiledProgram& /*program*/, Context& /*context*/,
                                           const BackendOptions& /*options*/) const {
    return {};
  }

  // The same from a graph. load() compiles, checks the limit, packs into memory of the executable's
  // own, and loads.
  std::unique_ptr<Executable> load(const graph::Graph& graph, const WeightSource& weights,
                                   Context& context, const BackendOptions& options) const;
  MemoryReport plan(const graph::Graph& graph, Context& context,
                    const BackendOptions& options) const;
  std::vector<std::string> explain(const graph::Graph& graph, Context& context,
                                   const BackendOptions& options) const;
};

}  // namespace difflet::runtime
