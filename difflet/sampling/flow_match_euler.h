// The schedule and the Euler step of flow matching, as diffusers' FlowMatchEulerDiscreteScheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "difflet/tensor/host_tensor.h"

namespace difflet::sampling {

enum class TimeShift { Exponential, Linear };
enum class SigmaSpacing { AsGiven, Karras, Exponential };
enum class SigmaDirection { Falling, Rising };  // Rising: invert_sigmas

struct FlowMatchEulerConfig {
  std::int64_t num_train_timesteps = 1000;
  double shift = 1.0;  // used when there is no dynamic shift
  bool use_dynamic_shifting = false;
  double base_shift = 0.5, max_shift = 1.15;
  std::int64_t base_image_seq_len = 256, max_image_seq_len = 4096;
  std::optional<double> shift_terminal;  // the last sigma; nothing or 0: not stretched
  TimeShift time_shift = TimeShift::Exponential;
  SigmaSpacing spacing = SigmaSpacing::AsGiven;
  SigmaDirection direction = SigmaDirection::Falling;
};

// mu of the dynamic shift for a picture of so many tokens; linear and not clamped.
double calculate_shift(std::int64_t image_tokens, const FlowMatchEulerConfig& config);

// 1 ... 1 / steps: what the FLUX pipeline asks for.
std::vector<float> linear_sigmas(std::int64_t steps);

struct Schedule {
  std::vector<float> sigmas;     // [steps + 1], the last is where the picture is clean
  std::vector<float> timesteps;  // [steps], sigma * num_train_timesteps
};

// `sigmas` before the shift; none: the scheduler's own. `mu` counts with a dynamic shift only.
// Throws InvalidArgument for steps outside 1 ... num_train_timesteps or when the schedule is not
// finite.
Schedule make_schedule(const FlowMatchEulerConfig& config, std::int64_t steps,
                       const std::optional<std::vector<float>>& sigmas, double mu);

// sample + (sigma[i + 1] - sigma[i]) * output in the dtype of `output`: in bf16 the difference and
// the product are rounded, the sum is formed in f32 and rounded once.
HostTensor euler_step(const Schedule& schedule, std::size_t i, const HostTensor& output,
                      const HostTensor& sample);

// negative + scale * (positive - negative), each result rounded to the dtype.
HostTensor true_cfg(const HostTensor& positive, const HostTensor& negative, double scale);

}  // namespace difflet::sampling
