// The hub as the environment and the options describe it, and models by id.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "difflet/base/options.h"
#include "difflet/io/hub/options.h"
#include "difflet/io/hub/selection.h"

namespace difflet::cli {

// From HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME (in this order), HF_ENDPOINT,
// HF_TOKEN, HUGGING_FACE_HUB_TOKEN or the file HF_TOKEN_PATH, HF_HUB_OFFLINE,
// HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_DISABLE_SYMLINKS, the proxy variables and
// SSL_CERT_FILE, as huggingface_hub and curl understand them. Throws InvalidArgument when no variable
// says where the cache is.
io::hub::HubOptions hub_options();
// What this program needs of a repository.
io::hub::Wanted wanted_files(const std::string& variant);

// --model, or another option that names a model, as a folder: itself when there is such a folder, else the
// snapshot of "org/name" or "org/name@revision" in the cache. Throws NotFound with the command that
// downloads it.
std::filesystem::path model_folder(const OptionValues& options, std::string_view option = "model");

}  // namespace difflet::cli
