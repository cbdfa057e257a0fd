// What a core computes on registers alone: the ceiling of every kernel.
#pragma once

#include <array>
#include <string_view>

#include "difflet/bench/windows.h"

namespace difflet::bench {

// One kind of multiply-add: f32 at the width of a level's registers, pairs of bf16 or int16, fours of
// int8.
enum class Arithmetic {
  F32Xmm,
  F32Ymm,
  F32Zmm,
  Int16Ymm,
  Int16Zmm,
  Bf16Zmm,
  Int8Zmm,
  Bf16Amx,
  Int8Amx
};
inline constexpr std::array kArithmetics{
    Arithmetic::F32Xmm,   Arithmetic::F32Ymm,   Arithmetic::F32Zmm,
    Arithmetic::Int16Ymm, Arithmetic::Int16Zmm, Arithmetic::Bf16Zmm,
    Arithmetic::Int8Zmm,  Arithmetic::Bf16Amx,  Arithmetic::Int8Amx};

// "f32 xmm", "bf16 zmm", "int8 amx".
std::string_view arithmetic_name(Arithmetic arithmetic) noexcept;
// Whether the chip has the instructions and the operating system saves their registers (CPUID, XCR0).
// For AMX asks the kernel for permission to use the tiles, which this process then keeps.
bool chip_has(Arithmetic arithmetic) noexcept;

// Multiply-adds by `threads` threads at once, in operations a second and thread (2 a multiply-add).
// Factors are zero, so no chip slows down for the power of changing bits. Throws Unsupported when the
// chip lacks it.
Measured measure_arithmetic(Arithmetic arithmetic, int threads);

}  // namespace difflet::bench
