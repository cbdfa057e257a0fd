// Schedules and Euler steps against diffusers' FlowMatchEulerDiscreteScheduler.
#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/golden.h"

#include "difflet/base/log.h"
#include "difflet/pipelines/scheduler_config.h"
#include "difflet/sampling/flow_match_euler.h"

namespace difflet::sampling {
namespace {

FlowMatchEulerConfig config_of(const Json& json, const std::string& name) {
  models::ConfigReader reader(json, name);
  FlowMatchEulerConfig config = pipelines::read_scheduler_config(reader);
  EXPECT_TRUE(reader.unknown().empty()) << name;
  return config;
}

void expect_near(const Json& want, const std::vector<float>& got, const std::string& what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto w = want[i].get<double>();
    EXPECT_NEAR(got[i], w, 1e-6 * std::max(1.0, std::abs(w))) << what << "[" << i << "]";
  }
}

void check_run(const std::string& name, const FlowMatchEulerConfig& config, const Json& run) {
  const auto steps = run.at("steps").get<std::int64_t>();
  double mu = 0;
  if (!run.at("mu").is_null()) {
    mu = calculate_shift(run.at("image_tokens").get<std::int64_t>(), config);
    EXPECT_NEAR(mu, run.at("mu").get<double>(), 1e-12) << name;
  }
  std::optional<std::vector<float>> sigmas;
  if (run.at("pipeline_sigmas").get<bool>()) {
    sigmas = linear_sigmas(steps);
  }
  const Schedule schedule = make_schedule(config, steps, sigmas, mu);
  const std::string what = fmt::format("{} {} steps", name, steps);
  expect_near(run.at("sigmas"), schedule.sigmas, what + " sigmas");
  expect_near(run.at("timesteps"), schedule.timesteps, what + " timesteps");
}

TEST(SchedulerGolden, SigmasAndTimesteps) {
  const Json cases = read_json_file(golden::data("scheduler/flow_match_euler.json"));
  ASSERT_GT(cases.size(), 10U);
  for (const Json& c : cases) {
    const auto name = c.at("name").get<std::string>();
    const FlowMatchEulerConfig config = config_of(c.at("config"), name);
    for (const Json& run : c.at("runs")) {
      check_run(name, config, run);
    }
  }
}

// Sigmas that the FLUX paper's authors and others publish for 1024 x 1024 (mu 1.15).
TEST(SchedulerGolden, FourStepsAtOneMegapixel) {
  FlowMatchEulerConfig config;
  config.use_dynamic_shifting = true;
  const double mu = calculate_shift(4096, config);
  EXPECT_DOUBLE_EQ(mu, 1.15);
  const Schedule s = make_schedule(config, 4, linear_sigmas(4), mu);
  const std::vector<float> want{1.0F, 0.904531F, 0.759511F, 0.512844F, 0.0F};
  ASSERT_EQ(s.sigmas.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(s.sigmas[i], want[i], 1e-6);
  }
}

TEST(SchedulerGolden, StepsAreEqualBitForBit) {
  const auto file = io::SafetensorsFile::open(golden::data("scheduler/step_traces.safetensors"));
  for (const std::string trace : {"f32", "bf16", "f32_latents_bf16_output"}) {
    Schedule schedule;
    schedule.sigmas = file.tensor(trace + ".sigmas").to_floats();
    ASSERT_EQ(schedule.sigmas.size(), 7U);
    for (std::size_t i = 0; i < 6; ++i) {
      const auto tensor = [&](const char* what, std::size_t at) {
        return file.tensor(fmt::format("{}.{}.{}", trace, what, at));
      };
      const HostTensor next = euler_step(schedule, i, tensor("output", i), tensor("sample", i));
      const HostTensor want = tensor("sample", i + 1);
      EXPECT_EQ(next.dtype(), want.dtype()) << trace;
      EXPECT_EQ(next.to_floats(), want.to_floats()) << trace << " step " << i;
    }
  }
}

}  // namespace
}  // namespace difflet::sampling
