#include "difflet/artifact/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCall = std::size_t{1} << 30U;  // bytes of one read or write
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

FileStatus to_status(const struct stat& info) {
  FileStatus status;
  status.kind = S_ISDIR(info.st_mode)   ? FileKind::Folder
                : S_ISREG(info.st_mode) ? FileKind::Regular
                : S_ISLNK(info.st_mode) ? FileKind::Link
                                        : FileKind::Other;
  status.bytes = static_cast<std::uint64_t>(info.st_size);
  status.device = info.st_dev;
  status.inode = info.st_ino;
  return status;
}

// Interrupted calls are made again.
template <typename Call>
auto retried(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

}  // namespace

void Fd::reset() noexcept {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

bool try_lock(const Fd& fd, LockKind kind) noexcept {
  const int operation = (kind == LockKind::Shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  return retried([&] { return ::flock(fd.get(), operation); }) == 0 || errno != EWOULDBLOCK;
}

void unlock(const Fd& fd) noexcept { (void)::flock(fd.get(), LOCK_UN); }

FileStatus status_of(const Fd& fd) {
  struct stat info = {};
  check(::fstat(fd.get(), &info) == 0, ErrorCode::Unavailable, "cannot read an open file's status");
  return to_status(info);
}

std::optional<Folder> Folder::open(const fs::path& path) {
  auto fd = std::make_shared<const Fd>(::open(path.c_str(), kFolderFlags));
  if (!*fd) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    check(errno != ENOTDIR, ErrorCode::InvalidArgument, "'{}' is not a folder", path.string());
    fail_errno("open", path, errno);
  }
  return Folder(std::move(fd), path);
}

void Folder::refuse(const char* action, const std::string& name, int error) const {
  struct stat info = {};
  const fs::path at = path_ / name;
  if ((error == ELOOP || error == ENOTDIR) &&
      ::fstatat(fd_->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    check(!S_ISLNK(info.st_mode), ErrorCode::DataLoss,
          "'{}' is a symbolic link, which a store does not follow", at.string());
    fail(ErrorCode::DataLoss, "'{}' is not a folder", at.string());
  }
  fail_errno(action, at, error);
}

std::optional<Folder> Folder::child(const std::string& name) const {
  auto fd =
      std::make_shared<const Fd>(::openat(fd_->get(), name.c_str(), kFolderFlags | O_NOFOLLOW));
  if (!*fd) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    refuse("open", name, errno);
  }
  return Folder(std::move(fd), path_ / name);
}

Folder Folder::make(const std::string& name) const {
  if (::mkdirat(fd_->get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
    fail_errno("make folder", path_ / name, errno);
  }
  std::optional<Folder> folder = child(name);
  check(folder.has_value(), ErrorCode::NotFound, "'{}' vanished", (path_ / name).string());
  return *std::move(folder);
}

std::optional<FileStatus> Folder::status(const std::string& name) const {
  struct stat info = {};
  if (::fstatat(fd_->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    fail_errno("read", path_ / name, errno);
  }
  return to_status(info);
}

std::vector<std::string> Folder::names() const {
  // A descriptor of its own: reading moves its position.
  const int fd = ::openat(fd_->get(), ".", kFolderFlags);
  DIR* const stream = fd < 0 ? nullptr : ::fdopendir(fd);
  if (stream == nullptr) {
    fail_errno("list", path_, errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    names.emplace_back(entry->d_name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(stream);
  if (error != 0) {
    fail_errno("list", path_, error);
  }
  std::erase_if(names, [](const std::string& n) { return n == "." || n == ".."; });
  std::ranges::sort(names);
  return names;
}

Fd Folder::file(const std::string& name) const {
  // O_NONBLOCK keeps a planted pipe from waiting for its writer.
  Fd fd(::openat(fd_->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    refuse("open", name, errno);
  }
  check(status_of(fd).kind == FileKind::Regular, ErrorCode::DataLoss, "'{}' is not a regular file",
        (path_ / name).string());
  return fd;
}

std::string Folder::read(const std::string& name, std::size_t limit) const {
  return read_all(file(name), path_ / name, limit);
}

Fd Folder::create(const std::string& name) const {
  Fd fd(::openat(fd_->get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd && errno != EEXIST) {
    fail_errno("write", path_ / name, errno);
  }
  return fd;
}

Fd Folder::open_or_create(const std::string& name) const {
  Fd fd(::openat(fd_->get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                 0666));
  if (!fd) {
    refuse("write", name, errno);
  }
  check(status_of(fd).kind == FileKind::Regular, ErrorCode::DataLoss, "'{}' is not a regular file",
        (path_ / name).string());
  return fd;
}

void Folder::write(const std::string& name, std::string_view text) const {
  const Fd fd = create(name);
  if (!fd) {
    fail_errno("write", path_ / name, EEXIST);
  }
  write_at(fd, path_ / name, 0, std::as_bytes(std::span(text)));
  sync_file(fd, path_ / name);
}

bool Folder::rename(const std::string& name, const Folder& to, const std::string& new_name) const {
  if (::renameat(fd_->get(), name.c_str(), to.fd_->get(), new_name.c_str()) == 0) {
    return true;
  }
  if (errno == EEXIST || errno == ENOTEMPTY) {
    return false;
  }
  fail_errno("write", to.path_ / new_name, errno);
}

void Folder::sync() const {
  // A file system that cannot sync a folder is left alone.
  if (::fsync(fd_->get()) != 0 && (errno == EIO || errno == ENOSPC)) {
    fail_errno("sync folder", path_, errno);
  }
}

void Folder::remove(const std::string& name) const {
  if (::unlinkat(fd_->get(), name.c_str(), 0) == 0 || errno == ENOENT) {
    return;
  }
  if (errno != EISDIR && errno != EPERM) {
    fail_errno("remove", path_ / name, errno);
  }
  if (const std::optional<Folder> folder = child(name)) {
    for (const std::string& below : folder->names()) {
      folder->remove(below);
    }
  }
  if (::unlinkat(fd_->get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    fail_errno("remove", path_ / name, errno);
  }
}

bool Folder::remove_if_empty(const std::string& name) const noexcept {
  return ::unlinkat(fd_->get(), name.c_str(), AT_REMOVEDIR) == 0;
}

std::uint64_t Folder::bytes() const {
  std::uint64_t sum = 0;
  for (const std::string& name : names()) {
    const std::optional<FileStatus> info = status(name);
    if (info && info->kind == FileKind::Folder) {
      const std::optional<Folder> folder = child(name);
      sum += folder ? folder->bytes() : 0;
    } else if (info && info->kind == FileKind::Regular) {
      sum += info->bytes;
    }
  }
  return sum;
}

std::string read_all(const Fd& fd, const fs::path& path, std::size_t limit) {
  const std::uint64_t size = status_of(fd).bytes;
  check(size <= limit, ErrorCode::DataLoss, "'{}' has {} bytes, at most {} are allowed",
        path.string(), size, limit);
  std::string text(static_cast<std::size_t>(size), '\0');
  read_at(fd, path, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

void read_at(const Fd& fd, const fs::path& path, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = retried([&] {
      return ::pread(fd.get(), out.data(), std::min(out.size(), kMaxCall),
                     static_cast<off_t>(offset));
    });
    if (n < 0) {
      fail_errno("read", path, errno);
    }
    check(n > 0, ErrorCode::DataLoss, "'{}' is truncated", path.string());
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void write_at(const Fd& fd, const fs::path& path, std::uint64_t offset,
              std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = retried([&] {
      return ::pwrite(fd.get(), bytes.data(), std::min(bytes.size(), kMaxCall),
                      static_cast<off_t>(offset));
    });
    if (n < 0) {
      fail_errno("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void hash_file(const Fd& fd, const fs::path& path, std::uint64_t begin, std::uint64_t size,
               Sha256& hash) {
  constexpr std::size_t kBlock = std::size_t{1} << 20U;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min<std::uint64_t>(size, kBlock)));
  while (size > 0) {
    const auto part =
        std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(size, kBlock)));
    read_at(fd, path, begin, part);
    hash.update(part);
    begin += part.size();
    size -= part.size();
  }
}

void sync_file(const Fd& fd, const fs::path& path) {
  if (::fsync(fd.get()) != 0) {
    fail_errno("write", path, errno);
  }
}

std::string random_name() {
  static std::atomic<std::uint64_t> calls{0};
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
    random = (static_cast<std::uint64_t>(::getpid()) << 32U) ^ ++calls;
  }
  return to_hex(std::as_bytes(std::span(&random, 1)));
}

}  // namespace difflet::artifact
