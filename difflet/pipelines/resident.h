// One component of a pipeline: opened and checked at once, traced and planned for a request's
// shapes, loaded when it is run, and kept until it is released or other shapes are asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "difflet/base/context.h"
#include "difflet/compile/component.h"
#include "difflet/compile/program.h"
#include "difflet/pipelines/observer.h"
#include "difflet/runtime/backend.h"

namespace difflet::pipelines {

struct PipelineOptions {
  DType dtype = DType::BF16;
  std::string variant;                        // of the weight files
  const runtime::Backend* backend = nullptr;  // required
  runtime::BackendOptions load;                  // memory_limit: of all components together
};

class Resident {
 public:
  Resident(std::string name, compile::ComponentFolder folder, const PipelineOptions& options,
           Context& context);

  const std::string& name() const noexcept { return name_; }
  const compile::ComponentFolder& folder() const noexcept { return folder_; }

  // Traces, compares with the checkpoint's headers and plans; reads no weight. Drops a program that
  // was loaded for other shapes.
  void prepare(const models::ShapeMap& shapes);
  // Bytes that the prepared program takes when loaded.
  std::size_t planned_bytes() const noexcept { return planned_.total(); }
  // Loads the prepared program unless it is there, and runs it.
  compile::NamedTensors run(const compile::NamedTensors& inputs, Observer& observer);
  void load(Observer& observer);
  void release() noexcept { program_.reset(); }

 private:
  std::string name_;
  compile::ComponentFolder folder_;
  const PipelineOptions* options_;
  Context* context_;
  models::ShapeMap shapes_;
  std::optional<graph::Graph> graph_;
  runtime::MemoryReport planned_;
  std::unique_ptr<compile::Program> program_;
};

}  // namespace difflet::pipelines
