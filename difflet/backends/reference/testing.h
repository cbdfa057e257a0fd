// Programs given as text, run on values given as lists.
#pragma once

#include <string>
#include <vector>

#include "difflet/backends/reference/reference.h"
#include "difflet/base/error.h"

namespace difflet::reference {

class NoWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    fail(ErrorCode::NotFound, "no weight '{}'", param.name);
  }
};

class OneWeight final : public runtime::WeightSource {
 public:
  explicit OneWeight(HostTensor tensor) : tensor_(std::move(tensor)) {}
  HostTensor whole(const graph::ParamDecl&) const override { return tensor_; }

 private:
  HostTensor tensor_;
};

inline HostTensor floats(const Shape& shape, std::vector<float> values) {
  return HostTensor::from(shape, std::span<const float>(values));
}
inline HostTensor ints(const Shape& shape, std::vector<std::int32_t> values) {
  return HostTensor::from(shape, std::span<const std::int32_t>(values));
}

// Runs the body, whose last value is %r, and returns the output as floats.
inline std::vector<float> run(std::string_view body, const std::vector<HostTensor>& inputs,
                              const runtime::WeightSource& weights = NoWeights{}) {
  const std::string text =
      fmt::format("graph \"t\" mesh(dp=1, cfg=1, cp=1, tp=1) {{\n{}\n}}", body);
  return run_ranks(graph::parse(text), weights, inputs)[0][0].to_floats();
}

inline std::vector<std::vector<float>> run_all(std::string_view mesh, std::string_view body,
                                               const std::vector<HostTensor>& inputs) {
  const std::string text = fmt::format("graph \"t\" mesh({}) {{\n{}\n}}", mesh, body);
  std::vector<std::vector<float>> results;
  for (const auto& outputs : run_ranks(graph::parse(text), NoWeights{}, inputs)) {
    results.push_back(outputs[0].to_floats());
  }
  return results;
}

}  // namespace difflet::reference
