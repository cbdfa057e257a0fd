// A backend that computes pictures in bands of rows where the whole would take more memory than
// BackendOptions::picture_memory_limit; everything else it leaves to another backend.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/runtime/backend.h"

namespace difflet::bands {

class BandBackend final : public runtime::Backend {
 public:
  // `inner` must outlive this.
  explicit BandBackend(const runtime::Backend& inner) : inner_(&inner) {}

  std::string_view name() const noexcept override { return inner_->name(); }
  std::string describe(const runtime::BackendOptions& options) const override {
    return inner_->describe(options);
  }
  std::map<std::string, std::string> toolchain(
      const runtime::BackendOptions& options) const override {
    return inner_->toolchain(options);
  }
  // With a limit, the first note says how the picture is computed. Throws Unsupported for a limit on what
  // is not one picture made from one input, ResourceExhausted, with the smallest limit that works, for one
  // that is too low.
  runtime::CompiledProgram compile(const graph::Graph& graph, Context& context,
                                   const runtime::BackendOptions& options) const override;
  void pack(const runtime::CompiledProgram& program, std::int64_t rank,
            const runtime::WeightSource& weights, runtime::PieceSink& sink, Context& context,
            const runtime::BackendOptions& options) const override;
  // Throws ResourceExhausted when a program of bands takes more than its limit on this many threads.
  std::unique_ptr<runtime::Executable> load(
      const runtime::CompiledProgram& program,
      std::vector<std::shared_ptr<const runtime::PackedWeights>> weights, Context& context,
      const runtime::BackendOptions& options) const override;
  runtime::MemoryReport plan(const runtime::CompiledProgram& program, Context& context,
                             const runtime::BackendOptions& options) const override;
  std::vector<std::string> explain(const runtime::CompiledProgram& program, Context& context,
                                   const runtime::BackendOptions& options) const override;

 private:
  const runtime::Backend* inner_;
};

}  // namespace difflet::bands
