// A file that is still arriving: <etag>.incomplete, hashed as it grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "difflet/io/hub/digest.h"
#include "difflet/io/hub/options.h"

namespace difflet::io::hub {

// Stays when it is destroyed, unless it is empty, so that a later attempt goes on from there.
class PartialFile {
 public:
  // Opens or makes it and hashes what is there; more than `size` bytes are thrown away. Throws as
  // RepoCache does, Cancelled when asked to stop.
  PartialFile(std::filesystem::path path, std::string etag, std::uint64_t size,
              const StopRequest& stop);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::uint64_t have() const noexcept { return have_; }
  std::uint64_t size() const noexcept { return size_; }
  const std::string& etag() const noexcept { return etag_; }
  // Throws DataLoss for more than size() bytes.
  void append(std::span<const std::byte> bytes);
  // Begins anew with an empty file.
  void restart();
  // Whether all bytes are there and hash to the ETag; ends the hash.
  bool is_right();
  // Flushes it to the disk and gives it its name.
  void keep(const std::filesystem::path& as);
  void remove() noexcept;

 private:
  void open_file(int flags);
  void take_existing(const StopRequest& stop);

  std::filesystem::path path_;
  std::string etag_;
  std::uint64_t size_ = 0, have_ = 0, flushing_ = 0;
  BlobDigest digest_;
  int fd_ = -1;
  bool kept_ = false;
};

}  // namespace difflet::io::hub
