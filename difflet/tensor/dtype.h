// Element types and their conversion. U8 is for bytes in files: graphs have no such type. I8 is for
// quantised weights.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace difflet {

enum class DType : std::uint8_t { F32, F16, BF16, I32, I64, Bool, U8, I8 };

std::size_t dtype_bytes(DType t) noexcept;
std::string_view dtype_name(DType t) noexcept;                     // "f32", "bf16", ...
std::optional<DType> parse_dtype(std::string_view name) noexcept;  // inverse
inline bool is_float(DType t) noexcept { return t <= DType::BF16; }

// bf16 and f16 as bits; round to nearest even, NaN stays NaN.
inline float bf16_to_f32(std::uint16_t h) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16U);
}
inline std::uint16_t f32_to_bf16(float f) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((u >> 16U) | 0x40U);
  }
  return static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U);
}
inline float round_bf16(float f) noexcept { return bf16_to_f32(f32_to_bf16(f)); }
float f16_to_f32(std::uint16_t h) noexcept;
std::uint16_t f32_to_f16(float f) noexcept;

}  // namespace difflet
