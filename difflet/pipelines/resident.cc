#include "difflet/pipelines/resident.h"

#include <utility>

#include "difflet/base/error_context.h"
#include "difflet/pipelines/stage.h"

namespace difflet::pipelines {
Resident::Resident(std::string name, compile::ComponentFolder folder,
                   const PipelineOptions& options, Context& context)
    : name_(std::move(name)), folder_(std::move(folder)), options_(&options), context_(&context) {}

void Resident::prepare(const std::vector<models::ShapeMap>& shapes, std::size_t current,
                       std::int64_t runs) {
  if (prepared_ && shapes == shapes_ && current == current_) {
    return;
  }
  executable_.reset();
  prepared_.reset();
  compile::ArtifactUse use = options_->artifacts;
  use.expected_runs = runs;
  prepared_.emplace(name_, folder_, shapes, current, options_->build, use, *context_);
  shapes_ = shapes;
  current_ = current;
}

compile::StagedExecutable& Resident::loaded(Observer& observer) {
  require(prepared_.has_value(), "a component that was not prepared");
  if (executable_ == nullptr) {
    run_stage(observer, "load " + name_, [&] {
      const auto weights =
          folder_.weights(context_->threads, [&observer] { observer.check_stop(); });
      executable_ = with_context(
          ErrorCode::DataLoss, [this] { return folder_.path().string(); },
          [&] { return prepared_->load(*weights); });
    });
  }
  return *executable_;
}

compile::NamedTensors Resident::run(const compile::NamedTensors& inputs, Observer& observer) {
  compile::StagedExecutable& executable = loaded(observer);
  observer.check_stop();
  observer.component_inputs(name_, inputs);
  return executable.run(inputs);
}

}  // namespace difflet::pipelines
