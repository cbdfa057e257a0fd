// A model's folder made anew beside some of its components.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace difflet::pipelines {

// Files of a model that a copy of it needs.
struct CopiedFile {
  std::filesystem::path from;
  std::filesystem::path to;  // relative to the copy
  std::uint64_t bytes = 0;
};

// Of `folder`: its own files, and those in folders of components that its index names, but for weights of
// another variant or format than safetensors, and for weights beside the components. Of the components
// in `without`, weights and config.json are left out too. A folder without an index is a component's
// own, and is in `without` by the name "".
std::vector<CopiedFile> files_of_model(const std::filesystem::path& folder,
                                       const std::string& variant,
                                       const std::set<std::string, std::less<>>& without);

// What of `folder` files_of_model() leaves out although it may be wanted: folders that the index does not
// name and those in components' folders, links that lead nowhere, and what is no file (pipes, devices).
// Weights of other variants and formats, and hidden folders at the top, are not among them. Paths
// relative to `folder`, sorted.
std::vector<std::string> left_out_of_copy(const std::filesystem::path& folder);

// Bytes that copy_files() would take on the file system of `folder`, in which it would write.
std::uint64_t bytes_to_copy(const std::vector<CopiedFile>& files,
                            const std::filesystem::path& folder);

// Files of up to a megabyte are copied, so that editing one leaves the other alone; larger ones become
// hard links, and copies where there is no way to link. `progress` is called before each file and every
// few megabytes, and may throw to stop. Throws ResourceExhausted (disk full), Unavailable.
void copy_files(const std::vector<CopiedFile>& files, const std::filesystem::path& folder,
                const std::function<void()>& progress);

}  // namespace difflet::pipelines
