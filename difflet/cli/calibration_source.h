// What --calibration and --inputs of difflet quantize name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/options.h"
#include "difflet/compile/calibrate.h"

namespace difflet::cli {

// At most one of the first two; nothing of the three: layers are neither smoothed nor measured.
struct CalibrationSource {
  std::vector<std::string> prompts;                    // to be run
  std::optional<compile::ModelStatistics> statistics;  // of an earlier run
  std::optional<compile::NamedTensors> inputs;         // of one component
};

// What a calibration would be for.
struct CalibrationUse {
  bool pipeline = false;  // prompts can be run
  bool smooths = false;   // there are w8a8 layers
};

// Throws InvalidArgument for files that hold something else, for options that do not go together, and
// when w8a8 layers of a single component are to be smoothed and nothing says from what.
CalibrationSource calibration_source(const OptionValues& options, const CalibrationUse& use);

// Whether the file is statistics rather than prompts: by its content, which begins as safetensors do, or
// by its name. Throws what opening it throws.
bool holds_statistics(const std::filesystem::path& file);

// One prompt a line, empty lines left out. Throws InvalidArgument for a file without a prompt or that is
// not UTF-8 text, ResourceExhausted beyond a megabyte.
std::vector<std::string> read_prompts(const std::filesystem::path& file);

}  // namespace difflet::cli
