#include "difflet/pipelines/resident.h"

#include <utility>

#include "difflet/base/error.h"
#include "difflet/pipelines/stage.h"

namespace difflet::pipelines {
namespace {

// Looks between two weights whether to stop: loading can take minutes.
class StoppableWeights : public runtime::WeightSource {
 public:
  StoppableWeights(const io::Checkpoint& checkpoint, Observer& observer)
      : weights_(checkpoint), observer_(&observer) {}
  HostTensor whole(const graph::ParamDecl& param) const override {
    observer_->check_stop();
    return weights_.whole(param);
  }
  void done(const graph::ParamDecl& param) const override { weights_.done(param); }

 private:
  compile::CheckpointWeights weights_;
  Observer* observer_;
};

}  // namespace

Resident::Resident(std::string name, compile::ComponentFolder folder,
                   const PipelineOptions& options, Context& context)
    : name_(std::move(name)), folder_(std::move(folder)), options_(&options), context_(&context) {}

void Resident::prepare(const models::ShapeMap& shapes) {
  if (graph_ && shapes == shapes_) {
    return;
  }
  program_.reset();
  graph_ = folder_.trace(shapes, options_->dtype);
  shapes_ = shapes;
  planned_ = options_->backend->plan(*graph_, *context_, options_->load);
}

void Resident::load(Observer& observer) {
  require(graph_.has_value(), "a component that was not prepared");
  if (program_ != nullptr) {
    return;
  }
  run_stage(observer, "load " + name_, [&] {
    const StoppableWeights weights(folder_.checkpoint(), observer);
    try {
      program_ = std::make_unique<compile::Program>(*graph_, weights, *options_->backend, *context_,
                                                    options_->load);
    } catch (Error& e) {
      if (e.code() == ErrorCode::DataLoss) {
        e.add_context(folder_.path().string());
      }
      throw;
    }
  });
}

compile::NamedTensors Resident::run(const compile::NamedTensors& inputs, Observer& observer) {
  load(observer);
  observer.check_stop();
  return program_->run(inputs);
}

}  // namespace difflet::pipelines
