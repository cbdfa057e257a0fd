// scheduler/scheduler_config.json of a diffusers folder.
#pragma once

#include <filesystem>

#include "difflet/base/log.h"
#include "difflet/models/common/config_reader.h"
#include "difflet/sampling/flow_match_euler.h"

namespace difflet::pipelines {

// Throws Unsupported for another scheduler class or a setting that is not implemented.
sampling::FlowMatchEulerConfig open_scheduler(const std::filesystem::path& folder, Log& log);
sampling::FlowMatchEulerConfig read_scheduler_config(models::ConfigReader& reader);

}  // namespace difflet::pipelines
