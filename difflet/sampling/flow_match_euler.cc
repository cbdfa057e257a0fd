#include "difflet/sampling/flow_match_euler.h"

#include <algorithm>
#include <cmath>

#include "difflet/base/error.h"
#include "difflet/sampling/rounding.h"

namespace difflet::sampling {
namespace {

// numpy.linspace.
std::vector<double> linspace(double start, double stop, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count), start);
  if (count > 1) {
    const double step = (stop - start) / static_cast<double>(count - 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i) * step + start;
    }
    values.back() = stop;
  }
  return values;
}

// The static shift in the precision of T; constants are rounded to it, as numpy and torch do.
template <typename T>
T static_shift(T sigma, double shift) {
  return static_cast<T>(shift) * sigma / (T{1} + static_cast<T>(shift - 1.0) * sigma);
}

// The scheduler's own sigmas: equal steps between the largest and smallest of training, which the
// constructor has already shifted.
std::vector<double> own_sigmas(const FlowMatchEulerConfig& c, std::int64_t steps) {
  const auto train = static_cast<float>(c.num_train_timesteps);
  const auto end = [&](float t) {
    const float sigma = t / train;
    return static_cast<double>(c.use_dynamic_shifting ? sigma : static_shift(sigma, c.shift));
  };
  const auto scale = static_cast<double>(c.num_train_timesteps);
  std::vector<double> sigmas = linspace(end(train) * scale, end(1.0F) * scale, steps);
  for (double& sigma : sigmas) {
    sigma /= scale;
  }
  return sigmas;
}

template <typename T>
void shift_all(std::vector<T>& sigmas, const FlowMatchEulerConfig& c, double mu) {
  for (T& sigma : sigmas) {
    if (!c.use_dynamic_shifting) {
      sigma = static_shift(sigma, c.shift);
      continue;
    }
    const T m = static_cast<T>(c.time_shift == TimeShift::Exponential ? std::exp(mu) : mu);
    sigma = m / (m + (T{1} / sigma - T{1}));
  }
  if (c.shift_terminal.value_or(0.0) != 0.0) {
    const T scale = (T{1} - sigmas.back()) / static_cast<T>(1.0 - *c.shift_terminal);
    for (T& sigma : sigmas) {
      sigma = T{1} - (T{1} - sigma) / scale;
    }
  }
}

// Karras et al. 2022, rho 7, or equal steps of the logarithm, between the first and last sigma.
std::vector<double> respaced(double first, double last, std::size_t count, SigmaSpacing spacing) {
  constexpr double kRho = 7.0;
  const auto n = static_cast<std::int64_t>(count);
  std::vector<double> sigmas;
  if (spacing == SigmaSpacing::Exponential) {
    sigmas = linspace(std::log(first), std::log(last), n);
    std::transform(sigmas.begin(), sigmas.end(), sigmas.begin(),
                   [](double x) { return std::exp(x); });
    return sigmas;
  }
  sigmas = linspace(0, 1, n);
  const double low = std::pow(last, 1 / kRho);
  const double high = std::pow(first, 1 / kRho);
  for (double& sigma : sigmas) {
    sigma = std::pow(high + sigma * (low - high), kRho);
  }
  return sigmas;
}

template <typename T>
std::vector<float> finished(std::vector<T> sigmas, const FlowMatchEulerConfig& c, double mu) {
  shift_all(sigmas, c, mu);
  if (c.spacing != SigmaSpacing::AsGiven) {
    const auto spaced = respaced(static_cast<double>(sigmas.front()),
                                 static_cast<double>(sigmas.back()), sigmas.size(), c.spacing);
    return {spaced.begin(), spaced.end()};
  }
  return {sigmas.begin(), sigmas.end()};
}

}  // namespace

double calculate_shift(std::int64_t image_tokens, const FlowMatchEulerConfig& c) {
  const double m = (c.max_shift - c.base_shift) /
                   static_cast<double>(c.max_image_seq_len - c.base_image_seq_len);
  const double b = c.base_shift - m * static_cast<double>(c.base_image_seq_len);
  return static_cast<double>(image_tokens) * m + b;
}

std::vector<float> linear_sigmas(std::int64_t steps) {
  const auto values = linspace(1.0, 1.0 / static_cast<double>(steps), steps);
  return {values.begin(), values.end()};
}

Schedule make_schedule(const FlowMatchEulerConfig& c, std::int64_t steps,
                       const std::optional<std::vector<float>>& sigmas, double mu) {
  check(steps >= 1 && steps <= c.num_train_timesteps, ErrorCode::InvalidArgument,
        "steps: {} is not in 1 ... {} (the scheduler's num_train_timesteps)", steps,
        c.num_train_timesteps);
  require(!sigmas || static_cast<std::int64_t>(sigmas->size()) == steps,
          "another number of sigmas than of steps");
  Schedule schedule;
  schedule.sigmas = sigmas ? finished(*sigmas, c, mu) : finished(own_sigmas(c, steps), c, mu);
  if (c.direction == SigmaDirection::Rising) {
    for (float& sigma : schedule.sigmas) {
      sigma = 1.0F - sigma;
    }
  }
  for (const float sigma : schedule.sigmas) {
    check(std::isfinite(sigma), ErrorCode::InvalidArgument,
          "the scheduler's settings give no finite schedule of {} steps", steps);
    schedule.timesteps.push_back(sigma * static_cast<float>(c.num_train_timesteps));
  }
  schedule.sigmas.push_back(c.direction == SigmaDirection::Rising ? 1.0F : 0.0F);
  return schedule;
}

HostTensor euler_step(const Schedule& schedule, std::size_t i, const HostTensor& output,
                      const HostTensor& sample) {
  require(i + 1 < schedule.sigmas.size(), "a step beyond the schedule");
  require(output.shape() == sample.shape(), "a sample and an output of different shapes");
  const DType dtype = output.dtype();
  const float dt = rounded(schedule.sigmas[i + 1] - schedule.sigmas[i], dtype);
  const std::vector<float> v = output.to_floats();
  const std::vector<float> x = sample.to_floats();
  return make_tensor(dtype, sample.shape(),
                     [&](std::size_t k) { return x[k] + rounded(dt * v[k], dtype); });
}

HostTensor true_cfg(const HostTensor& positive, const HostTensor& negative, double scale) {
  require(positive.shape() == negative.shape() && positive.dtype() == negative.dtype(),
          "two model outputs of different types");
  const DType dtype = positive.dtype();
  const std::vector<float> p = positive.to_floats();
  const std::vector<float> n = negative.to_floats();
  const auto s = static_cast<float>(scale);
  return make_tensor(dtype, positive.shape(), [&](std::size_t k) {
    return n[k] + rounded(s * rounded(p[k] - n[k], dtype), dtype);
  });
}

}  // namespace difflet::sampling
