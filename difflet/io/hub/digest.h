// The hash that names a blob.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace difflet::io::hub {

// Of a file of `size` bytes as its ETag has it: SHA-256 where that has 64 digits, else the SHA-1 of a
// git blob.
class BlobDigest {
 public:
  BlobDigest(const std::string& etag, std::uint64_t size);
  ~BlobDigest();
  BlobDigest(BlobDigest&&) noexcept;
  BlobDigest& operator=(BlobDigest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  std::string hex();  // ends the message

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet::io::hub
