#include "difflet/compile/stored_int8_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "difflet/base/error.h"

namespace difflet::compile {
namespace {

constexpr std::int8_t kNever = -128;
constexpr float kSmallest = std::numeric_limits<float>::min();
constexpr float kLargest = std::numeric_limits<float>::max() / 127;

// The largest weight of a row is 127 of its scale, the inverse of a smoothing factor is used too.
bool is_factor(float v) { return v >= kSmallest && v <= kLargest; }

}  // namespace

std::set<std::string, std::less<>> stored_int8_names(const graph::passes::LinearQuantPlan& plan) {
  std::set<std::string, std::less<>> names;
  for (const auto& [weight, quant] : plan) {
    names.insert(graph::passes::int8_name(weight));
    names.insert(graph::passes::scale_name(weight));
    if (quant.smooth) {
      names.insert(graph::passes::smooth_name(weight));
    }
  }
  return names;
}

StoredInt8Weights::StoredInt8Weights(const io::Checkpoint& checkpoint,
                                     const graph::passes::LinearQuantPlan& plan,
                                     std::function<void()> check_stop)
    : CheckpointWeights(checkpoint, std::move(check_stop)),
      checkpoint_(&checkpoint),
      names_(stored_int8_names(plan)) {}

HostTensor StoredInt8Weights::whole(const graph::ParamDecl& param) const {
  HostTensor tensor = CheckpointWeights::whole(param);
  if (!names_.contains(param.name)) {
    return tensor;
  }
  const auto refuse = [&](std::size_t at, const std::string& what) {
    fail(ErrorCode::DataLoss, "{}: tensor '{}' is damaged: element {} is {}",
         checkpoint_->has(param.name) ? checkpoint_->file_of(param.name).string() : "checkpoint",
         param.name, at, what);
  };
  if (tensor.dtype() == DType::I8) {
    const std::span<const std::int8_t> values = tensor.as<std::int8_t>();
    if (const auto bad = std::ranges::find(values, kNever); bad != values.end()) {
      refuse(static_cast<std::size_t>(bad - values.begin()), "-128, int8 weights end at -127");
    }
    return tensor;
  }
  const std::vector<float> factors = tensor.to_floats();
  if (const auto bad = std::ranges::find_if_not(factors, is_factor); bad != factors.end()) {
    refuse(static_cast<std::size_t>(bad - factors.begin()),
           fmt::format("{}, no scale or factor", *bad));
  }
  return tensor;
}

}  // namespace difflet::compile
