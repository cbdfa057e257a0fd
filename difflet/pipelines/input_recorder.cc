#include "difflet/pipelines/input_recorder.h"

#include <utility>

namespace difflet::pipelines {

InputRecorder::InputRecorder(std::set<std::string, std::less<>> components, std::int64_t steps,
                             std::int64_t kept, Observer& next)
    : components_(std::move(components)), next_(&next) {
  for (std::int64_t i = 0; i < kept; ++i) {
    wanted_.insert(kept == 1 ? 0 : i * (steps - 1) / (kept - 1));
  }
}

void InputRecorder::begin_request(bool keep) {
  keep_ = keep;
  runs_.clear();
}

void InputRecorder::component_inputs(std::string_view component,
                                     const compile::NamedTensors& inputs) {
  next_->component_inputs(component, inputs);
  if (!keep_ || !components_.contains(component)) {
    return;
  }
  const std::string name(component);
  if (wanted_.contains(runs_[name]++)) {
    inputs_[name].push_back(inputs);
  }
}

}  // namespace difflet::pipelines
