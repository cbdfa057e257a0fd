#include "difflet/io/hub/blob_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "difflet/io/hub/cache.h"
#include "difflet/io/hub/retry.h"

namespace difflet::io::hub {
namespace {

constexpr double kPoll = 0.1;   // seconds
constexpr mode_t kMode = 0664;  // others of the group may wait for it too

// Whether the open file still has its name: a holder may have removed it.
bool has_name(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

}  // namespace

BlobLock::BlobLock(const std::filesystem::path& file, const StopRequest& stop,
                   const std::function<void()>& waiting) {
  bool told = false;
  while (true) {
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
    if (fd_ < 0) {
      fail_write(file, errno);
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (has_name(fd_)) {
        return;
      }
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return;  // no locks here
    }
    ::close(fd_);
    fd_ = -1;
    if (!told && waiting) {
      waiting();
    }
    told = true;
    wait_seconds(kPoll, stop);
  }
}

BlobLock::~BlobLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

}  // namespace difflet::io::hub
