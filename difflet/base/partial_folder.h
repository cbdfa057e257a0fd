// A folder that appears as a whole or not at all.
#pragma once

#include <filesystem>

namespace difflet {

// Grows in a hidden folder of a new name beside the target, and gets its name at the end. A marker tells
// such folders from others, and a lock that goes with the process tells whether someone still writes:
// the next writer beside them removes what interrupted ones left, and nothing else.
class PartialFolder {
 public:
  // Makes the folders above, if need be. Throws InvalidArgument for a target that cannot be a folder's
  // new name (none, a mount point), Unavailable when another process writes it or the place takes no
  // folders, ResourceExhausted (disk full).
  explicit PartialFolder(const std::filesystem::path& target);
  ~PartialFolder();  // removes the folder unless it was kept
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  // Renames to the target, which must not exist or be an empty folder.
  void keep();

 private:
  void make(const std::filesystem::path& parent);
  void mark() const;
  void clear(const std::filesystem::path& parent) const;

  std::filesystem::path target_;
  std::filesystem::path place_;  // with the marker
  std::filesystem::path path_;   // below it
  int fd_ = -1;                  // of place_, locked
};

}  // namespace difflet
