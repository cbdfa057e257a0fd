// Whether a file or folder can be written, asked before work begins.
#pragma once

#include <filesystem>
#include <string_view>

namespace difflet::cli {

// Throws what writing `path` would throw: NotFound when its folder is not there, InvalidArgument
// for a folder or device in its place, Unavailable when the folder or the file does not let this
// process write.
void check_writable(const std::filesystem::path& path);

// The folder that `given` names, which is not there or is empty: without a slash at its end, links to
// a folder followed. Throws what making it would throw, and InvalidArgument when something else is
// there.
std::filesystem::path new_folder(const std::filesystem::path& given);

// Throws InvalidArgument, naming both, when writing `output` would replace `input`: the file itself, or
// one in that folder or in the folders of it, whatever the names and links that lead there. `option`
// is the one that gave `output`, without its dashes.
void check_replaces_no_input(std::string_view option, const std::filesystem::path& output,
                             const std::filesystem::path& input);

}  // namespace difflet::cli
