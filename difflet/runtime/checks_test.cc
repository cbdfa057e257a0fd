#include "difflet/runtime/checks.h"

#include <cmath>

#include <gtest/gtest.h>

#include "difflet/base/testing.h"

namespace difflet::runtime {
namespace {

HostTensor floats(const Shape& shape, std::vector<float> values) {
  return HostTensor::from(shape, std::span<const float>(values));
}

class OneWeight final : public WeightSource {
 public:
  explicit OneWeight(HostTensor tensor) : tensor_(std::move(tensor)) {}
  HostTensor whole(const graph::ParamDecl&) const override { return tensor_; }

 private:
  HostTensor tensor_;
};

graph::ParamDecl declare(DType dtype, const Shape& shape) {
  return {"block.weight", {}, dtype, shape, {}};
}

TEST(CheckInputs, NamesTheInputAndBothTypes) {
  graph::Graph g("denoiser");
  g.add(graph::Input{"latents", DType::F32, Shape{1, 4}}, {});
  EXPECT_NO_THROW(check_inputs(g, std::vector{floats({1, 4}, {1, 2, 3, 4})}));
  EXPECT_ERROR(check_inputs(g, {}), ErrorCode::InvalidArgument,
               "program 'denoiser' takes 1 inputs, not 0");
  EXPECT_ERROR(check_inputs(g, std::vector{floats({4}, {1, 2, 3, 4})}), ErrorCode::InvalidArgument,
               "input 'latents' of program 'denoiser' must be f32[1, 4], not f32[4]");
}

TEST(LoadParam, ConvertsToTheDtypeOfTheProgram) {
  const HostTensor loaded =
      load_param(declare(DType::BF16, Shape{2}), OneWeight(floats({2}, {1, 1.001F})), {}, 0);
  EXPECT_EQ(loaded.dtype(), DType::BF16);
  EXPECT_EQ(loaded.to_floats(), (std::vector<float>{1, 1}));
}

TEST(LoadParam, RefusesOtherShapes) {
  EXPECT_ERROR(load_param(declare(DType::F32, Shape{3}), OneWeight(floats({2}, {1, 2})), {}, 0),
               ErrorCode::InvalidArgument,
               "param 'block.weight': the tensor has shape [2], not [3]");
}

TEST(LoadParam, RefusesWhatIsNotFinite) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
      EXPECT_ERROR(
          load_param(declare(dtype, Shape{2}), OneWeight(floats({2}, {1, bad}).to(dtype)), {}, 0),
          ErrorCode::DataLoss, "tensor 'block.weight' holds NaN or infinity at element 1 of [2]");
    }
  }
  // Finite in the file, not in the program's dtype.
  EXPECT_ERROR(load_param(declare(DType::F16, Shape{1}), OneWeight(floats({1}, {1e6F})), {}, 0),
               ErrorCode::DataLoss, "element 0");
}

}  // namespace
}  // namespace difflet::runtime
