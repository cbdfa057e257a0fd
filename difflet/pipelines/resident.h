// One component of a pipeline: opened and checked at once, prepared for a request's shapes, loaded when
// it is run, and kept until it is released or other shapes are asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/compile/component.h"
#include "difflet/compile/prepared.h"
#include "difflet/pipelines/observer.h"

namespace difflet::pipelines {

struct PictureSize {
  std::int64_t width = 0, height = 0;  // pixels
  bool operator==(const PictureSize&) const = default;
};

struct PipelineOptions {
  compile::BuildOptions build;  // memory limit: of all components together
  compile::ArtifactUse artifacts;
  // The sizes that an artifact holds, and the only ones that a request may have; empty: any one.
  std::vector<PictureSize> sizes;
};

class Resident {
 public:
  Resident(std::string name, compile::ComponentFolder folder, const PipelineOptions& options,
           Context& context);

  const std::string& name() const noexcept { return name_; }
  const compile::ComponentFolder& folder() const noexcept { return folder_; }
  compile::ComponentFolder& folder() noexcept { return folder_; }  // before it is prepared

  // Finds or compiles the programs of shapes[current]; an artifact must hold all of `shapes`. Reads no
  // weight but for a fingerprint. Drops a program that was loaded for other shapes. `runs`: of the
  // step program in a request.
  void prepare(const std::vector<models::ShapeMap>& shapes, std::size_t current, std::int64_t runs);
  // Bytes that the prepared programs take when loaded.
  std::size_t planned_bytes() const { return prepared_->planned().total(); }
  const compile::Prepared& prepared() const { return *prepared_; }

  // The prepared programs, loaded unless they are there.
  compile::StagedExecutable& loaded(Observer& observer);
  compile::NamedTensors run(const compile::NamedTensors& inputs, Observer& observer);
  void release() noexcept { executable_.reset(); }
  const compile::StagedExecutable* executable() const noexcept {  // null: not loaded
    return executable_.get();
  }

 private:
  std::string name_;
  compile::ComponentFolder folder_;
  const PipelineOptions* options_;
  Context* context_;
  std::vector<models::ShapeMap> shapes_;
  std::size_t current_ = 0;
  std::optional<compile::Prepared> prepared_;
  std::unique_ptr<compile::StagedExecutable> executable_;
};

}  // namespace difflet::pipelines
