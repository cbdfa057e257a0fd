#include "difflet/tensor/dtype.h"

#include <array>

namespace difflet {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};

// Position = enumerator value.
constexpr std::array<DTypeRow, 8> kDTypes = {{{"f32", 4},
                                              {"f16", 2},
                                              {"bf16", 2},
                                              {"i32", 4},
                                              {"i64", 8},
                                              {"bool", 1},
                                              {"u8", 1},
                                              {"i8", 1}}};

const DTypeRow& row(DType t) noexcept { return kDTypes[static_cast<std::size_t>(t)]; }

}  // namespace

std::size_t dtype_bytes(DType t) noexcept { return row(t).bytes; }

std::string_view dtype_name(DType t) noexcept { return row(t).name; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

float f16_to_f32(std::uint16_t h) noexcept {
  const std::uint32_t sign = (h & 0x8000U) << 16U;
  const std::uint32_t exponent = (h >> 10U) & 0x1fU;
  const std::uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1fU) {  // Inf, NaN
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  }
  if (exponent == 0) {  // zero, subnormal: mantissa * 2^-24 is exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

std::uint16_t f32_to_f16(float f) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (u >> 16U) & 0x8000U;
  const std::uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {  // NaN: keep the payload's top bits, quiet
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13U) & 0x1ffU));
  }
  if (magnitude >= 0x47800000U) {  // 65536 and above
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {
    // Below 2^-14: adding 0.5 leaves the value in units of 2^-24 (f32's last place at 0.5), rounded
    // to nearest even, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  // Rebias 127 -> 15 and round to nearest even on 13 bits; a carry runs into the exponent, as it must.
  const std::uint32_t rounded = magnitude - (112U << 23U) + 0xfffU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13U));
}

}  // namespace difflet
