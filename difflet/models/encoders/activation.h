// Activation names of transformers' configs (ACT2FN).
#pragma once

#include <optional>
#include <string_view>

#include "difflet/graph/op.h"

namespace difflet::encoders {

inline std::optional<graph::Activation> parse_activation(std::string_view name) {
  using A = graph::Activation;
  if (name == "gelu") return A::GeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return A::GeluTanh;
  if (name == "quick_gelu") return A::QuickGelu;
  if (name == "silu" || name == "swish") return A::Silu;
  if (name == "relu") return A::Relu;
  return std::nullopt;
}

}  // namespace difflet::encoders
