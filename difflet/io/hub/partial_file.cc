#include "difflet/io/hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/io/hub/cache.h"

namespace difflet::io::hub {
namespace {

constexpr std::size_t kReadPiece = std::size_t{1} << 20U;
constexpr std::uint64_t kFlushPiece = std::uint64_t{64} << 20U;  // bytes

}  // namespace

PartialFile::PartialFile(std::filesystem::path path, std::string etag, std::uint64_t size,
                         const StopRequest& stop)
    : path_(std::move(path)), etag_(std::move(etag)), size_(size), digest_(etag_, size) {
  open_file(O_CREAT);
  try {
    take_existing(stop);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

PartialFile::~PartialFile() {
  if (have_ == 0 && !kept_) {
    remove();
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void PartialFile::open_file(int flags) {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (fd_ < 0) {
    fail_write(path_, errno);
  }
}

void PartialFile::take_existing(const StopRequest& stop) {
  struct stat info = {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    fail_write(path_, errno);
  }
  if (static_cast<std::uint64_t>(info.st_size) > size_) {
    restart();
    return;
  }
  std::vector<std::byte> piece(kReadPiece);
  while (true) {
    check(!stop || !stop(), ErrorCode::Cancelled, "stopped");
    const ssize_t got = ::pread(fd_, piece.data(), piece.size(), static_cast<off_t>(have_));
    if (got < 0 && errno != EINTR) {
      fail_write(path_, errno);
    }
    if (got == 0) {
      return;
    }
    if (got > 0) {
      digest_.update(std::span(piece).first(static_cast<std::size_t>(got)));
      have_ += static_cast<std::uint64_t>(got);
    }
  }
}

void PartialFile::append(std::span<const std::byte> bytes) {
  check(bytes.size() <= size_ - have_, ErrorCode::DataLoss,
        "the server sends more than the {} bytes of the file", size_);
  std::span<const std::byte> left = bytes;
  while (!left.empty()) {
    const ssize_t put = ::pwrite(fd_, left.data(), left.size(), static_cast<off_t>(have_));
    if (put < 0 && errno != EINTR) {
      fail_write(path_, errno);
    }
    if (put > 0) {
      const auto written = static_cast<std::size_t>(put);
      digest_.update(left.first(written));
      left = left.subspan(written);
      have_ += written;
    }
  }
  // The disk works while the network does, so that the last flush is short.
  if (have_ - flushing_ >= kFlushPiece) {
    (void)::sync_file_range(fd_, static_cast<off_t>(flushing_),
                            static_cast<off_t>(have_ - flushing_), SYNC_FILE_RANGE_WRITE);
    flushing_ = have_;
  }
}

void PartialFile::restart() {
  // A new file: somebody without a lock may have given the old one its name meanwhile.
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    fail_write(path_, errno);
  }
  open_file(O_CREAT | O_EXCL);
  digest_ = BlobDigest(etag_, size_);
  have_ = 0;
  flushing_ = 0;
}

bool PartialFile::is_right() { return have_ == size_ && digest_.hex() == etag_; }

void PartialFile::keep(const std::filesystem::path& as) {
  if (::fsync(fd_) != 0) {
    fail_write(path_, errno);
  }
  if (::rename(path_.c_str(), as.c_str()) != 0) {
    fail_write(as, errno);
  }
  kept_ = true;
  sync_folder(as.parent_path());
}

void PartialFile::remove() noexcept { (void)::unlink(path_.c_str()); }

}  // namespace difflet::io::hub
