// A backend: compiles a graph, loads its weights, gives an executable.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/executable.h"

namespace difflet::runtime {

struct LoadOptions {
  // Spelling of --cpu-level; empty: what the chip has. Other backends refuse a value.
  std::string cpu_level;
  // Refuses to plan more than this many bytes of weights, arena and scratch together; 0: no limit.
  std::size_t memory_limit = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  // Name and what runs: "cpu: avx512bf16". Throws as load() does for an option that cannot be.
  virtual std::string describe(const LoadOptions& /*options*/) const { return std::string(name()); }
  // What load() would take; reads no weight and allocates none of it.
  virtual MemoryReport plan(const graph::Graph& graph, Context& context,
                            const LoadOptions& options) const = 0;
  // Executable::explain() of the program that load() would make; reads no weight.
  virtual std::vector<std::string> explain(const graph::Graph& /*graph*/, Context& /*context*/,
                                           const LoadOptions& /*options*/) const {
    return {};
  }
  // Plans and packs. The graph's mesh must be of one rank unless the backend spans ranks. Throws
  // DataLoss for NaN or Inf in a weight, naming the tensor; ResourceExhausted over the limit.
  virtual std::unique_ptr<Executable> load(const graph::Graph& graph, const WeightSource& weights,
                                           Context& context, const LoadOptions& options) const = 0;
};

}  // namespace difflet::runtime
