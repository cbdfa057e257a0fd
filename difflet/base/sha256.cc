#include "difflet/base/sha256.h"

#include <cstdint>

#include <openssl/evp.h>

#include "difflet/base/error.h"

namespace difflet {

struct Sha256::Impl {
  Impl() : context(EVP_MD_CTX_new()) {
    require(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1,
            "SHA-256 is available");
  }
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  EVP_MD_CTX* context;
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1, "SHA-256 of bytes");
}

std::array<std::byte, 32> Sha256::digest() {
  std::array<std::byte, 32> out{};
  unsigned size = 0;
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  require(EVP_DigestFinal_ex(impl_->context, to, &size) == 1 && size == out.size(),
          "SHA-256 ends with 32 bytes");
  return out;
}

std::string Sha256::hex() { return to_hex(digest()); }

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    const auto value = std::to_integer<std::uint8_t>(b);
    out += kDigits[value >> 4U];
    out += kDigits[value & 15U];
  }
  return out;
}

bool is_hex(std::string_view text, std::size_t digits) noexcept {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace difflet
