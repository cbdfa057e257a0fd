// SHA-256 (OpenSSL).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace difflet {

class Sha256 {
 public:
  Sha256();  // throws Internal when the library refuses
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // Ends the message.
  std::array<std::byte, 32> digest();
  std::string hex();  // digest() as 64 lower-case digits

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string sha256_hex(std::string_view text);
std::string to_hex(std::span<const std::byte> bytes);
// Exactly so many lower-case hex digits.
bool is_hex(std::string_view text, std::size_t digits) noexcept;

}  // namespace difflet
