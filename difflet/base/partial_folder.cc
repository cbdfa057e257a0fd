#include "difflet/base/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = ".difflet-";
constexpr std::string_view kEnd = ".partial";
constexpr const char* kMarker = "difflet-partial-folder";
constexpr const char* kContent = "content";

std::string new_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
    random = static_cast<std::uint64_t>(::getpid());
  }
  return fmt::format("{}{:016x}{}", kBegin, random, kEnd);
}

// In the marker: whose content it is.
std::string marker_text(const fs::path& target) {
  return fmt::format("{}\n{}\n", kMarker, target.filename().string());
}

// The marker of `place`; empty without one.
std::string read_marker(const fs::path& place) {
  constexpr std::size_t kLongest = 4096;
  std::error_code error;
  const fs::path marker = place / kMarker;
  if (fs::symlink_status(marker, error).type() != fs::file_type::regular) {
    return "";
  }
  try {
    std::string text = read_text_file(marker, kLongest);
    return text.starts_with(fmt::format("{}\n", kMarker)) ? text : "";
  } catch (const Error&) {
    return "";  // of someone else
  }
}

// Content first: while there is any, the marker says what it is. A file that somebody put beside them
// keeps the folder.
void remove_place(const fs::path& place) {
  std::error_code error;
  fs::remove_all(place / kContent, error);
  if (!error) {
    ::unlink((place / kMarker).c_str());
    ::rmdir(place.c_str());
  }
}

int open_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

bool is_own(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid();
}

// What a rename could not replace is refused before anything is written.
void check_target(const fs::path& target) {
  check(target.has_filename() && target.filename() != "." && target.filename() != "..",
        ErrorCode::InvalidArgument, "'{}' names no folder that can be written", target.string());
  struct statx info = {};
  if (::statx(AT_FDCWD, target.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0) {
    if (errno != ENOENT) {
      fail_errno("write", target, errno);
    }
    return;
  }
  check((info.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0, ErrorCode::InvalidArgument,
        "cannot write '{}': a disk is mounted there, which a new folder cannot replace; name a "
        "folder in it",
        target.string());
}

}  // namespace

PartialFolder::PartialFolder(const fs::path& target)
    : target_(target.has_filename() ? target : target.parent_path()) {  // "x/" is "x"
  check_target(target_);
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) {
    fail_errno("write", parent, error.value());
  }
  make(parent);
  try {
    mark();
    clear(parent);
  } catch (...) {
    remove_place(place_);
    ::close(fd_);
    throw;
  }
}

PartialFolder::~PartialFolder() {
  remove_place(place_);
  ::close(fd_);
}

void PartialFolder::make(const fs::path& parent) {
  constexpr int kTries = 100;
  int made = -1;
  for (int i = 0; i < kTries && made != 0; ++i) {
    place_ = parent / new_name();
    made = ::mkdir(place_.c_str(), 0777);
    const int refused = made == 0 ? 0 : errno;
    check(refused != ENOENT, ErrorCode::Unavailable,
          "cannot write '{}': nothing can be written in '{}'", target_.string(), parent.string());
    if (refused != 0 && (refused != EEXIST || i + 1 == kTries)) {
      fail_errno("write", target_, refused);
    }
  }
  path_ = place_ / kContent;
  fd_ = open_folder(place_);
  if (fd_ < 0) {
    const int refused = errno;
    ::rmdir(place_.c_str());
    fail_errno("write", target_, refused);
  }
}

// Locked before it is marked: whoever sees a marker without a lock sees what was left.
void PartialFolder::mark() const {
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    fail_errno("lock", place_, errno);
  }
  const std::string text = marker_text(target_);
  write_file_atomic(place_ / kMarker, std::as_bytes(std::span(text)));
  if (::mkdir(path_.c_str(), 0777) != 0) {
    fail_errno("write", path_, errno);
  }
}

void PartialFolder::clear(const fs::path& parent) const {
  const std::string mine = marker_text(target_);
  std::error_code error;
  for (fs::directory_iterator item(parent, error); !error && item != fs::directory_iterator();
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name == place_.filename()) {
      continue;
    }
    const std::string marker = read_marker(item->path());
    const int fd = marker.empty() ? -1 : open_folder(item->path());
    if (fd < 0) {
      continue;
    }
    const bool busy = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (!busy && is_own(fd)) {
      remove_place(item->path());
    }
    ::close(fd);
    check(!busy || marker != mine, ErrorCode::Unavailable, "another process is writing '{}'",
          target_.string());
  }
}

void PartialFolder::keep() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    fail_errno("write", target_, errno);
  }
}

}  // namespace difflet
