// A picture's graph to a bundle whose exact memory is within a limit.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "difflet/backends/bands/band_plan.h"
#include "difflet/backends/bands/bundle.h"
#include "difflet/runtime/backend.h"

namespace difflet::bands {

class BundleCompiler {
 public:
  // All must outlive this. Throws Unsupported for a graph that is not one picture made from one input.
  BundleCompiler(const graph::Graph& graph, const runtime::Backend& inner, Context& context,
                 const runtime::BackendOptions& options);

  // The bundle of least work found that takes no more than `limit` bytes besides weights, which is less
  // than the `whole` takes. Throws ResourceExhausted with a limit that works where one K less does not,
  // what Backend::compile() throws.
  runtime::CompiledProgram compile(std::size_t limit, std::size_t whole);

 private:
  struct Built {
    Bundle bundle;
    runtime::MemoryReport memory;
    std::size_t bytes() const { return memory.arena_bytes + memory.scratch_bytes; }
  };
  struct Planned {
    BandPlan plan;
    Built built;
  };
  std::optional<Planned> find(std::size_t limit);
  std::optional<Planned> search(std::size_t limit);
  Planned near_smallest(std::size_t percent);
  Built build(const BandPlan& plan);
  BandPass build_pass(Bundle& bundle, const PlannedPass& planned,
                      const graph::passes::HeldValues& held);
  std::size_t program_of(Bundle& bundle, const graph::Graph& band);
  std::string summary(const BandPlan& plan, const Built& built) const;
  runtime::CompiledProgram finish(Planned& planned, std::size_t limit) const;

  const graph::Graph& graph_;
  graph::passes::RowBands bands_;
  const runtime::Backend& inner_;
  Context& context_;
  runtime::BackendOptions options_;
  std::optional<BandPlanner> planner_;
  struct Compiled {
    runtime::CompiledProgram program;
    runtime::MemoryReport memory;
  };
  // By little_scratch and the graph's text.
  std::map<std::pair<bool, std::string>, Compiled> compiled_;
  // Of the bundle being built: place by the graph's text, what each program takes.
  std::map<std::string, std::size_t> places_;
  std::vector<runtime::MemoryReport> memory_;
};

}  // namespace difflet::bands
