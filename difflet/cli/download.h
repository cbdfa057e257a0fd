// A model of the hub into its cache, with what is shown meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>

#include "difflet/base/options.h"
#include "difflet/io/hub/repo_id.h"

namespace difflet::cli {

enum class DownloadMode : std::uint8_t { Download, PlanOnly };

// The snapshot's folder; with PlanOnly what it takes is shown only, and the folder is empty unless
// everything is there. Uses --variant, --json and --quiet. Throws what io::hub throws.
std::filesystem::path download_model(const OptionValues& options, const io::hub::ModelName& model,
                                     DownloadMode mode);

}  // namespace difflet::cli
