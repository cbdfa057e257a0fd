// Plain argument types shared by all CPU kernels. Kernel translation units are compiled with their
// own -m flags, so nothing here may pull in a std template.
#pragma once

#include <cstddef>
#include <cstdint>

namespace difflet::cpu {

// Element type of a kernel operand. bf16 is held as its 16 bits; I8 is for weights only.
enum class Elem : std::uint8_t { F32, Bf16, I8 };

inline std::size_t elem_bytes(Elem e) noexcept {
  return e == Elem::F32 ? 4 : e == Elem::Bf16 ? 2 : 1;
}

enum class Act : std::uint8_t { None, GeluTanh, GeluErf, QuickGelu, Silu, Relu };

// Rows of contiguous elements; `stride` is the distance between rows in elements (0: one row for
// all, i.e. broadcast). A null `data` means the operand is absent.
struct Rows {
  void* data = nullptr;
  std::int64_t stride = 0;
  Elem elem = Elem::F32;
};
struct ConstRows {
  const void* data = nullptr;
  std::int64_t stride = 0;
  Elem elem = Elem::F32;
};

}  // namespace difflet::cpu
