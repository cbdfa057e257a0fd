// Folders and files of a store, reached from an open folder and never through a link: what somebody
// plants in a store cannot lead out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "difflet/base/sha256.h"

namespace difflet::artifact {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

enum class FileKind : std::uint8_t { Folder, Regular, Link, Other };

struct FileStatus {
  FileKind kind = FileKind::Other;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0, inode = 0;
};

// Flocks. A file system without them grants every one.
enum class LockKind : std::uint8_t { Shared, Exclusive };
bool try_lock(const Fd& fd, LockKind kind) noexcept;
void unlock(const Fd& fd) noexcept;
FileStatus status_of(const Fd& fd);

// An open folder. Names have no slash. Errors name the path: NotFound, DataLoss (a link, or a file
// where a folder should be, or the other way round), ResourceExhausted, Unavailable.
class Folder {
 public:
  // Follows links in `path`, which is the user's own; nothing when it is not there.
  static std::optional<Folder> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }

  std::optional<Folder> child(const std::string& name) const;  // nothing when it is not there
  Folder make(const std::string& name) const;                  // the child, made if need be
  std::optional<FileStatus> status(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted

  // A regular file open for reading; NotFound when it is not there.
  Fd file(const std::string& name) const;
  std::string read(const std::string& name, std::size_t limit) const;
  // A new file (it must not exist), made durable.
  void write(const std::string& name, std::string_view text) const;
  Fd create(const std::string& name) const;  // for reading and writing; invalid when it exists
  Fd open_or_create(const std::string& name) const;  // the same, or the regular file that is there

  // False when there is something of that name.
  bool rename(const std::string& name, const Folder& to, const std::string& new_name) const;
  void sync() const;
  // Removes a file, or a folder with all in it; links are removed, not followed. Throws Unavailable.
  void remove(const std::string& name) const;
  bool remove_if_empty(const std::string& name) const noexcept;
  // Bytes of all regular files below.
  std::uint64_t bytes() const;

 private:
  Folder(std::shared_ptr<const Fd> fd, std::filesystem::path path)
      : fd_(std::move(fd)), path_(std::move(path)) {}
  [[noreturn]] void refuse(const char* action, const std::string& name, int error) const;

  std::shared_ptr<const Fd> fd_;
  std::filesystem::path path_;
};

std::string read_all(const Fd& fd, const std::filesystem::path& path, std::size_t limit);
// All of `bytes` from `offset` on.
void write_at(const Fd& fd, const std::filesystem::path& path, std::uint64_t offset,
              std::span<const std::byte> bytes);
// Fills `out` from `offset` on. Throws DataLoss when the file is shorter.
void read_at(const Fd& fd, const std::filesystem::path& path, std::uint64_t offset,
             std::span<std::byte> out);
// Adds file bytes [begin, begin + size) to `hash`. Throws DataLoss when the file is shorter.
void hash_file(const Fd& fd, const std::filesystem::path& path, std::uint64_t begin,
               std::uint64_t size, Sha256& hash);
void sync_file(const Fd& fd, const std::filesystem::path& path);
// 16 random hex digits.
std::string random_name();

}  // namespace difflet::artifact
