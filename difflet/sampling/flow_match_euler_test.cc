#include "difflet/sampling/flow_match_euler.h"

#include "difflet/base/testing.h"

namespace difflet::sampling {
namespace {

TEST(FlowMatchEuler, StepsHaveARange) {
  const FlowMatchEulerConfig config{.num_train_timesteps = 10};
  EXPECT_EQ(make_schedule(config, 10, std::nullopt, 0).timesteps.size(), 10U);
  EXPECT_ERROR(make_schedule(config, 11, std::nullopt, 0), ErrorCode::InvalidArgument, "1 ... 10");
  EXPECT_ERROR(make_schedule(config, 0, std::nullopt, 0), ErrorCode::InvalidArgument, "1 ... 10");
}

TEST(FlowMatchEuler, AScheduleThatIsNotFiniteIsRefused) {
  // One step starts and ends at sigma 1, which cannot be stretched to another terminal.
  const FlowMatchEulerConfig config{.shift_terminal = 0.1};
  EXPECT_ERROR(make_schedule(config, 1, linear_sigmas(1), 0), ErrorCode::InvalidArgument, "finite");
}

TEST(FlowMatchEuler, StepIsAnEulerStep) {
  const Schedule schedule{.sigmas = {1.0F, 0.25F, 0.0F}, .timesteps = {1000, 250}};
  const HostTensor x = HostTensor::from(Shape{2}, std::vector<float>{1.0F, -2.0F});
  const HostTensor v = HostTensor::from(Shape{2}, std::vector<float>{4.0F, 8.0F});
  EXPECT_EQ(euler_step(schedule, 0, v, x).to_floats(), (std::vector<float>{-2.0F, -8.0F}));
  EXPECT_EQ(euler_step(schedule, 0, v.to(DType::BF16), x).dtype(), DType::BF16);
}

TEST(FlowMatchEuler, TrueGuidanceRoundsEachResult) {
  const HostTensor p = HostTensor::from(Shape{1}, std::vector<float>{1.0F});
  const HostTensor n = HostTensor::from(Shape{1}, std::vector<float>{0.5F});
  EXPECT_EQ(true_cfg(p, n, 3.0).to_floats(), std::vector<float>{2.0F});
  // 1 - 2^-7 is exact in bf16; its product with 1.3 is not.
  const HostTensor q = HostTensor::from(Shape{1}, std::vector<float>{1.0F - 0.0078125F});
  const HostTensor zero = HostTensor(DType::BF16, Shape{1});
  EXPECT_EQ(true_cfg(q.to(DType::BF16), zero, 1.3).to_floats(),
            std::vector<float>{round_bf16(1.3F * (1.0F - 0.0078125F))});
}

}  // namespace
}  // namespace difflet::sampling
