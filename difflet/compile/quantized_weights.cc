#include "difflet/compile/quantized_weights.h"

#include <utility>

#include "difflet/base/error.h"
#include "difflet/compile/component.h"
#include "difflet/compile/int8_weight.h"

namespace difflet::compile {

QuantizedWeights::QuantizedWeights(const io::Checkpoint& checkpoint,
                                   graph::passes::LinearQuantPlan plan, ThreadPool& threads,
                                   std::function<void()> check_stop, SmoothVectors smooth)
    : checkpoint_(&checkpoint),
      plan_(std::move(plan)),
      threads_(&threads),
      check_stop_(std::move(check_stop)),
      smooth_(std::move(smooth)) {
  for (const auto& [weight, quant] : plan_) {
    parts_.emplace(graph::passes::int8_name(weight), Part{Kind::Int8, weight});
    parts_.emplace(graph::passes::scale_name(weight), Part{Kind::Scale, weight});
    if (quant.smooth) {
      parts_.emplace(graph::passes::smooth_name(weight), Part{Kind::Smooth, weight});
    }
  }
}

QuantizedWeights::Part QuantizedWeights::part_of(const std::string& param) const {
  const auto found = parts_.find(param);
  return found == parts_.end() ? Part{} : found->second;
}

std::span<const float> QuantizedWeights::smooth_of(const std::string& weight) const {
  if (!plan_.at(weight).smooth) {
    return {};
  }
  const auto found = smooth_.find(weight);
  check(found != smooth_.end(), ErrorCode::InvalidArgument,
        "there is no smoothing vector for '{}': it takes calibration", weight);
  return found->second;
}

HostTensor QuantizedWeights::scale_of(const std::string& weight,
                                      std::span<const float> smooth) const {
  if (const auto known = scales_.find(weight); known != scales_.end()) {
    return known->second;
  }
  return naming_file(*checkpoint_, weight, [&] {
    return weight_scales(weight, checkpoint_->tensor(weight), smooth, *threads_);
  });
}

HostTensor QuantizedWeights::whole(const graph::ParamDecl& param) const {
  const Part part = part_of(param.name);
  if (part.kind == Kind::Plain) {
    return CheckpointWeights(*checkpoint_, check_stop_).whole(param);
  }
  if (check_stop_) {
    check_stop_();
  }
  check(checkpoint_->has(part.weight), ErrorCode::DataLoss, "tensor '{}' is missing", part.weight);
  const std::span<const float> smooth = smooth_of(part.weight);
  if (part.kind == Kind::Smooth) {
    return HostTensor::from(Shape{static_cast<std::int64_t>(smooth.size())}, smooth);
  }
  const std::scoped_lock lock(mutex_);
  if (part.kind == Kind::Scale) {
    return scale_of(part.weight, smooth);
  }
  Int8Weight made = naming_file(*checkpoint_, part.weight, [&] {
    return quantise_weight(part.weight, checkpoint_->tensor(part.weight), smooth, *threads_);
  });
  scales_.insert_or_assign(part.weight, made.scale);
  return made.values;
}

void QuantizedWeights::done(const graph::ParamDecl& param) const {
  const Part part = part_of(param.name);
  if (part.kind == Kind::Plain) {
    CheckpointWeights(*checkpoint_).done(param);
  } else if (part.kind != Kind::Smooth && checkpoint_->has(part.weight)) {
    checkpoint_->release(part.weight);
  }
}

}  // namespace difflet::compile
