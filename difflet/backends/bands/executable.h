// Runs a bundle: one program of bands is loaded at a time, a few values are kept whole.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "difflet/backends/bands/bundle.h"
#include "difflet/base/context.h"
#include "difflet/base/huge_buffer.h"
#include "difflet/runtime/backend.h"

namespace difflet::bands {

using Weights = std::vector<std::shared_ptr<const runtime::PackedWeights>>;

class BandExecutable final : public runtime::Executable {
 public:
  // `inner` and what `context` refers to must outlive this. `memory` is what it takes.
  BandExecutable(const runtime::CompiledProgram& program, Bundle bundle,
                 const runtime::MemoryReport& memory, Weights weights,
                 const runtime::Backend& inner, const Context& context,
                 const runtime::BackendOptions& options);

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) override;
  runtime::MemoryReport memory() const override { return memory_; }
  std::vector<std::string> explain() const override;
  std::vector<runtime::StepTime> profile() const override;

 private:
  class Run;

  std::string name_;
  runtime::Port input_;
  Bundle bundle_;
  runtime::MemoryReport memory_;
  Weights weights_;
  const runtime::Backend* inner_;
  Context context_;
  runtime::BackendOptions options_;
  // Of the last run: by program and step.
  std::map<std::size_t, std::vector<runtime::StepTime>> times_;
};

// One line for what the bundle does, then those of its programs.
std::vector<std::string> lines_of(const Bundle& bundle, const runtime::Backend& inner,
                                  Context& context, const runtime::BackendOptions& options);

}  // namespace difflet::bands
