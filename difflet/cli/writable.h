// Whether a file can be written, asked before work begins.
#pragma once

#include <filesystem>

namespace difflet::cli {

// Throws what writing `path` would throw: NotFound when its folder is not there, InvalidArgument
// for a folder or device in its place, Unavailable when the folder or the file does not let this
// process write.
void check_writable(const std::filesystem::path& path);

}  // namespace difflet::cli
