#include "difflet/pipelines/scheduler_config.h"

#include <string>

#include "difflet/base/error.h"

namespace difflet::pipelines {
namespace {

constexpr std::string_view kClass = "FlowMatchEulerDiscreteScheduler";

sampling::SigmaSpacing read_spacing(models::ConfigReader& r) {
  if (r.flag("use_beta_sigmas", false)) {
    r.refuse("use_beta_sigmas", "karras and exponential spacing are");
  }
  const bool karras = r.flag("use_karras_sigmas", false);
  const bool exponential = r.flag("use_exponential_sigmas", false);
  check(!karras || !exponential, ErrorCode::InvalidArgument,
        "{}: use_karras_sigmas and use_exponential_sigmas exclude each other", r.origin());
  if (karras) {
    return sampling::SigmaSpacing::Karras;
  }
  return exponential ? sampling::SigmaSpacing::Exponential : sampling::SigmaSpacing::AsGiven;
}

}  // namespace

sampling::FlowMatchEulerConfig read_scheduler_config(models::ConfigReader& r) {
  sampling::FlowMatchEulerConfig c;
  if (const std::string name = r.text("_class_name", kClass); name != kClass) {
    r.refuse("_class_name", fmt::format("{} is", kClass));
  }
  c.num_train_timesteps = r.integer("num_train_timesteps", c.num_train_timesteps, {1, 1'000'000});
  c.shift = r.number("shift", c.shift);
  check(c.shift > 0, ErrorCode::InvalidArgument, "{}: shift must be above 0, got {}", r.origin(),
        c.shift);
  c.use_dynamic_shifting = r.flag("use_dynamic_shifting", c.use_dynamic_shifting);
  c.base_shift = r.number("base_shift", c.base_shift);
  c.max_shift = r.number("max_shift", c.max_shift);
  c.base_image_seq_len = r.integer("base_image_seq_len", c.base_image_seq_len, {1, 1 << 30});
  c.max_image_seq_len = r.integer("max_image_seq_len", c.max_image_seq_len, {1, 1 << 30});
  check(c.base_image_seq_len != c.max_image_seq_len, ErrorCode::InvalidArgument,
        "{}: base_image_seq_len and max_image_seq_len are both {}", r.origin(),
        c.base_image_seq_len);
  if (const double terminal = r.number("shift_terminal", 0); terminal != 0) {
    check(terminal < 1, ErrorCode::InvalidArgument, "{}: shift_terminal must be below 1, got {}",
          r.origin(), terminal);
    c.shift_terminal = terminal;
  }
  const std::string type = r.text("time_shift_type", "exponential");
  if (type != "exponential" && type != "linear") {
    r.refuse("time_shift_type", "exponential and linear are");
  }
  c.time_shift = type == "linear" ? sampling::TimeShift::Linear : sampling::TimeShift::Exponential;
  c.spacing = read_spacing(r);
  if (r.flag("invert_sigmas", false)) {
    c.direction = sampling::SigmaDirection::Rising;
  }
  if (r.flag("stochastic_sampling", false)) {
    r.refuse("stochastic_sampling", "the deterministic step is");
  }
  return c;
}

sampling::FlowMatchEulerConfig open_scheduler(const std::filesystem::path& folder, Log& log) {
  const std::filesystem::path file = folder / "scheduler_config.json";
  models::ConfigReader reader(read_json_file(file), file.string());
  const sampling::FlowMatchEulerConfig config = read_scheduler_config(reader);
  for (const std::string& key : reader.unknown()) {
    log.warn("{}: unknown field '{}' is ignored", file.string(), key);
  }
  return config;
}

}  // namespace difflet::pipelines
