// Files: mapping, whole reads and writes that leave either the whole file or nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace difflet {

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

// Writes through a temporary file in the same folder, fsync and rename: on any error nothing is left
// and an existing file keeps its content. A symbolic link is followed, not replaced. Throws NotFound
// (no such folder), InvalidArgument (a directory or device), ResourceExhausted (disk full) or
// Unavailable.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> bytes);
// The same for the concatenation of `parts`.
void write_parts_atomic(const std::filesystem::path& path,
                        std::span<const std::span<const std::byte>> parts);

}  // namespace difflet
