#include "difflet/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "difflet/base/error.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCall = 1U << 30U;  // bytes in one read or write call

// Whose fault an errno is: the name given, a limit, or (all others) the system.
ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::NotFound;
    case ENAMETOOLONG:
    case EISDIR:
      return ErrorCode::InvalidArgument;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ErrorCode::ResourceExhausted;
    default:
      return ErrorCode::Unavailable;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// O_NONBLOCK keeps a pipe from waiting for its writer before it is refused.
int open_to_read(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    fail_errno("open", path, errno);
  }
  return fd;
}

void check_regular(const fs::path& path, mode_t mode) {
  check(!S_ISDIR(mode), ErrorCode::InvalidArgument, "'{}' is a directory", path.string());
  check(S_ISREG(mode), ErrorCode::InvalidArgument, "'{}' is not a regular file", path.string());
}

std::size_t regular_size(const Descriptor& fd, const fs::path& path) {
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    fail_errno("read", path, errno);
  }
  check_regular(path, info.st_mode);
  return static_cast<std::size_t>(info.st_size);
}

// The file a write to `path` ends up in. Devices are refused: a rename by root would replace
// /dev/null.
fs::path resolve_target(const fs::path& path) {
  check(!path.filename().empty(), ErrorCode::InvalidArgument, "'{}' names no file", path.string());
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    check_regular(path, info.st_mode);
  } else if (errno == ELOOP) {
    fail(ErrorCode::InvalidArgument, "'{}' is a circle of links", path.string());
  }
  return write_target(path);
}

// A new file in `folder` that is removed again unless keep() is called. Not mkstemp: that ignores the
// umask, and a picture should be as readable as any other file.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& folder, const fs::path& target) : target_(target) {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && fd_ < 0; ++i) {
      path_ = folder / unique_name();
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno != EEXIST) {
        fail_errno("write", target_, errno);
      }
    }
    if (fd_ < 0) {
      fail_errno("write", target_, EEXIST);
    }
  }
  ~TemporaryFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // Appends all of `bytes`, however many calls that takes.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxCall));
      if (n < 0 && errno != EINTR) {
        fail_errno("write", target_, errno);
      }
      bytes = bytes.subspan(n < 0 ? 0 : static_cast<std::size_t>(n));
    }
  }
  void reserve(std::uint64_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
      fail_errno("write", target_, errno);
    }
    // Finds out about a full disk before anything is made.
    if (bytes > 0 && ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
      fail_errno("write", target_, errno);
    }
  }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n =
          ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMaxCall), static_cast<off_t>(offset));
      if (n < 0 && errno != EINTR) {
        fail_errno("write", target_, errno);
      }
      offset += n < 0 ? 0 : static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(n < 0 ? 0 : static_cast<std::size_t>(n));
    }
  }
  // Makes the content durable and gives it the target's mode, if there is one.
  void finish() {
    if (fd_ < 0) {
      return;  // it is already
    }
    struct stat info = {};
    if (::stat(target_.c_str(), &info) == 0) {
      (void)::fchmod(fd_, info.st_mode & 07777U);
    }
    if (::fsync(fd_) != 0) {
      fail_errno("write", target_, errno);
    }
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
      fail_errno("write", target_, errno);
    }
  }
  void keep() {
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      fail_errno("write", target_, errno);
    }
    path_.clear();
  }

 private:
  // Short, so that it fits wherever the target's name does; random, so that processes in other
  // containers on the same folder do not meet.
  static std::string unique_name() {
    static std::atomic<std::uint64_t> calls{0};
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
      random = (static_cast<std::uint64_t>(::getpid()) << 32U) ^ ++calls;
    }
    return fmt::format(".difflet-{:016x}.tmp", random);
  }

  fs::path path_;
  fs::path target_;
  int fd_ = -1;
};

// The folder of `target`, which writing `path` makes.
fs::path existing_folder(const fs::path& path, const fs::path& target) {
  fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error;
  check(fs::is_directory(folder, error), ErrorCode::NotFound,
        "cannot write '{}': there is no folder '{}'", path.string(), folder.string());
  return folder;
}

// Makes the rename durable; a file system that cannot sync a folder is left alone.
void sync_folder(const fs::path& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0 && ::fsync(fd.get()) != 0 && errno == EIO) {
    fail_errno("sync folder", folder, EIO);
  }
}

}  // namespace

void fail_errno(const char* action, const fs::path& path, int error) {
  fail(code_of(error), "cannot {} '{}': {}", action, path.string(),
       std::generic_category().message(error));
}

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  const Descriptor fd(open_to_read(path));
  std::shared_ptr<MappedFile> file(new MappedFile());
  const std::size_t size = regular_size(fd, path);
  file->path_ = path;
  if (size > 0) {
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
      fail_errno("map", path, errno);
    }
    file->data_ = static_cast<const std::byte*>(at);
    file->size_ = size;
  }
  return file;
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::size_t before = (kPage - begin % kPage) % kPage;  // up to the first whole page
  const std::size_t after = (begin + part.size()) % kPage;     // behind the last one
  if (before + after < part.size()) {
    madvise(const_cast<std::byte*>(part.data()) + before, part.size() - before - after,
            MADV_DONTNEED);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

std::string read_text_file(const fs::path& path, std::size_t limit) {
  const Descriptor fd(open_to_read(path));
  std::string text;
  std::size_t filled = 0;
  const auto check_limit = [&](std::size_t size) {
    check(size <= limit, ErrorCode::ResourceExhausted,
          "'{}' is larger than the {} bytes allowed for it", path.string(), limit);
  };
  const std::size_t size = regular_size(fd, path);
  check_limit(size);
  text.resize(size + 1);
  while (true) {
    if (filled == text.size()) {
      check_limit(filled);
      text.resize(std::min(filled * 2, limit + 1));
    }
    const ssize_t n =
        ::read(fd.get(), text.data() + filled, std::min(text.size() - filled, kMaxCall));
    if (n == 0) {
      break;
    }
    if (n < 0 && errno != EINTR) {
      fail_errno("read", path, errno);
    }
    filled += n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  text.resize(filled);
  return text;
}

void write_file_atomic(const fs::path& path, std::span<const std::byte> bytes) {
  write_parts_atomic(path, std::span<const std::span<const std::byte>>(&bytes, 1));
}

fs::path write_target(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // as in the kernel
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(target, error); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    target = target.parent_path() / next;
  }
  return target;
}

struct StagedFile::Impl {
  explicit Impl(const fs::path& path) : Impl(path, resolve_target(path)) {}
  Impl(const fs::path& path, const fs::path& target)
      : folder(existing_folder(path, target)), file(folder, target) {}
  fs::path folder;
  TemporaryFile file;
};

StagedFile::StagedFile(const fs::path& path, std::span<const std::span<const std::byte>> parts)
    : impl_(std::make_unique<Impl>(path)) {
  for (const std::span<const std::byte> part : parts) {
    impl_->file.write(part);
  }
  impl_->file.finish();
}

StagedFile::StagedFile(const fs::path& path, std::uint64_t bytes)
    : impl_(std::make_unique<Impl>(path)) {
  impl_->file.reserve(bytes);
}

void StagedFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  impl_->file.write_at(offset, bytes);
}

void StagedFile::finish() { impl_->file.finish(); }

StagedFile::~StagedFile() = default;
StagedFile::StagedFile(StagedFile&&) noexcept = default;
StagedFile& StagedFile::operator=(StagedFile&&) noexcept = default;

void StagedFile::keep() {
  impl_->file.finish();
  impl_->file.keep();
  sync_folder(impl_->folder);
}

void write_parts_atomic(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  StagedFile(path, parts).keep();
}

}  // namespace difflet
