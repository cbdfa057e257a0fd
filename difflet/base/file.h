// Files: mapping, whole reads and writes that leave either the whole file or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace difflet {

// Throws "cannot <action> '<path>': ..." for an errno: NotFound, InvalidArgument (a name that cannot
// be), ResourceExhausted (disk, memory or descriptors) or Unavailable.
[[noreturn]] void fail_errno(const char* action, const std::filesystem::path& path, int error);

// A read-only mapping of a regular file; the bytes live as long as any copy of the pointer. The file may
// be replaced or removed meanwhile, but not shortened: reading past its new end kills the process.
class MappedFile {
 public:
  // Throws NotFound, InvalidArgument (a directory or device) or Unavailable, naming the path.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  // Lets go of the pages that lie wholly in `part` of bytes(): they are read again when touched.
  void release(std::span<const std::byte> part) const noexcept;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::filesystem::path path_;
};

// Reads a whole regular file of at most `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, std::size_t limit = 1U << 30U);

// The file that writing `path` makes or replaces: symbolic links are followed, also to a file that is
// not there yet. A circle of links gives one of them.
std::filesystem::path write_target(const std::filesystem::path& path);

// A file under a temporary name in the folder of its target. keep() gives it its name; without that
// nothing is left and an existing file keeps its content.
class StagedFile {
 public:
  // Completely written: the concatenation of `parts`. Throws NotFound (no such folder), InvalidArgument
  // (a directory or device), ResourceExhausted (disk full) or Unavailable; so does write().
  StagedFile(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
  // Of `bytes` bytes, to be written in any order. Takes the space where the file system can.
  StagedFile(const std::filesystem::path& path, std::uint64_t bytes);
  ~StagedFile();
  StagedFile(StagedFile&&) noexcept;
  StagedFile& operator=(StagedFile&&) noexcept;

  // Any number of threads at once; not after finish().
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void finish();  // makes the content durable
  void keep();    // after finish(), which it calls if need be

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A StagedFile that is kept at once; throws the same.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> bytes);
// The same for the concatenation of `parts`.
void write_parts_atomic(const std::filesystem::path& path,
                        std::span<const std::span<const std::byte>> parts);

}  // namespace difflet
