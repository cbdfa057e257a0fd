#include "difflet/compile/stored_int8_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "difflet/base/testing.h"
#include "difflet/io/safetensors.h"

namespace difflet::compile {
namespace {

using graph::WeightQuant;
using graph::passes::LinearQuantPlan;

const LinearQuantPlan kPlan{{"w", {WeightQuant::W8A8, true}}};

class StoredInt8 : public ::testing::Test {
 protected:
  using Tensors = std::map<std::string, HostTensor>;
  static Tensors sound() {
    HostTensor values(DType::I8, {2, 2});
    std::ranges::copy(std::array<std::int8_t, 4>{127, -127, 0, 1},
                      values.mutable_as<std::int8_t>().begin());
    return {{"w_int8", values},
            {"w_scale", HostTensor::from({2}, std::vector<float>{0.5F, 1})},
            {"w_smooth", HostTensor::from({2}, std::vector<float>{2, 0.1F})},
            {"v", HostTensor::from({1}, std::vector<float>{-1})}};
  }
  // Reads all of them.
  void read(const std::function<void(Tensors&)>& change) {
    Tensors tensors = sound();
    change(tensors);
    io::write_safetensors(folder_ / "model.safetensors", tensors);
    const io::Checkpoint checkpoint = io::Checkpoint::open(folder_.path());
    const StoredInt8Weights weights(checkpoint, kPlan);
    for (const auto& [name, tensor] : tensors) {
      const HostTensor got = weights.whole({.name = name,
                                            .aliases = {},
                                            .dtype = tensor.dtype(),
                                            .shape = tensor.shape(),
                                            .placement = {}});
      EXPECT_TRUE(std::ranges::equal(got.bytes(), tensor.bytes())) << name;
    }
  }
  testing::TemporaryFolder folder_;
};

TEST_F(StoredInt8, WhatQuantiseWritesIsRead) {
  read([](Tensors&) {});
}

TEST_F(StoredInt8, WhatNoQuantisationWritesIsRefused) {
  EXPECT_ERROR(read([](Tensors& t) { t.at("w_int8").mutable_as<std::int8_t>()[2] = -128; }),
               ErrorCode::DataLoss,
               "model.safetensors: tensor 'w_int8' is damaged: element 2 is -128");
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0F, -0.0F, -1.0F, 1e-40F, 3e38F, kInf, std::nanf("")}) {
    for (const char* name : {"w_scale", "w_smooth"}) {
      EXPECT_ERROR(read([&](Tensors& t) { t.at(name).mutable_as<float>()[1] = bad; }),
                   ErrorCode::DataLoss, fmt::format("tensor '{}' is damaged: element 1", name));
    }
  }
}

}  // namespace
}  // namespace difflet::compile
