// A folder that appears as a whole or not at all.
#pragma once

#include <filesystem>

namespace difflet {

// Grows as "<target>.partial" and gets its name at the end. One writer at a time: the lock goes with
// the process, and what an interrupted one left is cleared by the next.
class PartialFolder {
 public:
  // Makes the folders above, if need be. Throws InvalidArgument for a target without a name, Unavailable
  // when another process writes it or the place is read-only, ResourceExhausted (disk full).
  explicit PartialFolder(const std::filesystem::path& target);
  ~PartialFolder();  // removes the folder unless it was kept
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  // Renames to the target, which must not exist or be an empty folder.
  void keep();

 private:
  std::filesystem::path target_, path_;
  int fd_ = -1;
  bool kept_ = false;
};

}  // namespace difflet
