#include "difflet/base/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet {

namespace fs = std::filesystem;

PartialFolder::PartialFolder(const fs::path& target)
    : target_(target.has_filename() ? target : target.parent_path()),  // "x/" is "x"
      path_(target_.string() + ".partial") {
  check(target_.has_filename() && target_.filename() != "." && target_.filename() != "..",
        ErrorCode::InvalidArgument, "'{}' names no folder that can be written", target.string());
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    fail_errno("write", path_, error.value());
  }
  fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) {
    fail_errno("write", path_, errno);
  }
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int refused = errno;
      check(refused != EWOULDBLOCK, ErrorCode::Unavailable, "another process is writing '{}'",
            path_.string());
      fail_errno("lock", path_, refused);
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      fs::remove_all(entry.path());
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (!kept_) {
    fs::remove_all(path_, ignored);
  }
  ::close(fd_);
}

void PartialFolder::keep() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    fail_errno("write", target_, errno);
  }
  kept_ = true;
}

}  // namespace difflet
