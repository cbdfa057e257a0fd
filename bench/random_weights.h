// Deterministic random weights of a healthy size, for programs that measure real shapes without a
// download.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "difflet/runtime/executable.h"

namespace difflet::bench {

// Uniform around 0 with the spread that keeps activations' size through a Linear; norms around 1.
inline HostTensor random_weight(const std::string& name, DType dtype, const Shape& shape) {
  HostTensor t(dtype, shape);
  const bool norm = shape.rank() == 1 && name.ends_with("weight");
  const double fan_in = shape.rank() == 2 ? static_cast<double>(shape[1]) : 1e4;
  const double scale = 1.7 / std::sqrt(fan_in);
  std::uint64_t state = 0x9e3779b97f4a7c15U ^ std::hash<std::string>()(name);
  const auto next = [&] {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    const double u = static_cast<double>(state >> 11U) * 0x1p-53;
    return static_cast<float>(norm ? 1.0 + 0.2 * (u - 0.5) : scale * (2 * u - 1));
  };
  if (dtype == DType::F32) {
    for (float& v : t.mutable_as<float>()) v = next();
  } else {
    for (std::uint16_t& v : t.mutable_as<std::uint16_t>()) v = f32_to_bf16(next());
  }
  return t;
}

// Uniform in [-1, 1), the same for a seed.
inline HostTensor random_tensor(const Shape& shape, std::uint32_t seed) {
  HostTensor t(DType::F32, shape);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& v : t.mutable_as<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
  }
  return t;
}

class RandomWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    return random_weight(param.name, param.dtype, param.shape);
  }
};

}  // namespace difflet::bench
