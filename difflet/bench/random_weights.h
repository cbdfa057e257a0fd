// Deterministic random values of a healthy size, the same on every machine: weights for measuring real
// shapes without a download, and inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "difflet/runtime/executable.h"

namespace difflet::bench {

// Uniform in center +- spread.
struct Distribution {
  float center = 0, spread = 0;
};

// What a parameter of this checkpoint name gets: weights that keep the size of activations through
// products and convolutions, norms around 1, small biases, embeddings of unit size.
Distribution distribution_of(std::string_view name, const Shape& shape);

// bf16 values of the elements [first, first + out.size()) of the parameter; `first` is a multiple of 4.
// An element depends on name and index alone, so parts may be filled in any order.
void fill_random(std::string_view name, Distribution distribution, std::uint64_t first,
                 std::span<std::uint16_t> out);

// A whole parameter in F32 or BF16.
HostTensor random_weight(std::string_view name, DType dtype, const Shape& shape);

// F32, uniform in [-1, 1), the same for a seed.
HostTensor random_tensor(const Shape& shape, std::uint32_t seed);

class RandomWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    return random_weight(param.name, param.dtype, param.shape);
  }
};

}  // namespace difflet::bench
