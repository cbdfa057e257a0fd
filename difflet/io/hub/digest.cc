#include "difflet/io/hub/digest.h"

#include <array>
#include <string_view>

#include <openssl/evp.h>

#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::io::hub {

struct BlobDigest::Impl {
  explicit Impl(const EVP_MD* kind) : context(EVP_MD_CTX_new()) {
    require(context != nullptr && EVP_DigestInit_ex(context, kind, nullptr) == 1,
            "the hash of blobs is available");
  }
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  EVP_MD_CTX* context;
};

BlobDigest::BlobDigest(const std::string& etag, std::uint64_t size) {
  constexpr std::size_t kSha256Digits = 64;
  const bool sha256 = etag.size() == kSha256Digits;
  impl_ = std::make_unique<Impl>(sha256 ? EVP_sha256() : EVP_sha1());
  if (!sha256) {
    std::string head = fmt::format("blob {}", size);
    head += '\0';
    update(std::as_bytes(std::span(head)));
  }
}

BlobDigest::~BlobDigest() = default;
BlobDigest::BlobDigest(BlobDigest&&) noexcept = default;
BlobDigest& BlobDigest::operator=(BlobDigest&&) noexcept = default;

void BlobDigest::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1, "the hash of bytes");
}

std::string BlobDigest::hex() {
  std::array<std::byte, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  require(
      EVP_DigestFinal_ex(impl_->context, reinterpret_cast<unsigned char*>(out.data()), &size) == 1,
      "the hash ends");
  return to_hex(std::span(out).first(size));
}

}  // namespace difflet::io::hub
