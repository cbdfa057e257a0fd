// Operands of the kernel tests: random values held in either storage, and read back as double.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu::testing {

inline std::uint16_t to_bf16(float v) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &v, 4);
  if (v != v) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bf16(std::uint16_t v) {
  const std::uint32_t bits = std::uint32_t{v} << 16;
  float f = 0;
  std::memcpy(&f, &bits, 4);
  return f;
}

// A flat array of `Elem`; starts 4 or 2 bytes off any alignment on purpose.
class TestTensor {
 public:
  TestTensor(std::int64_t count, Elem elem)
      : elem_(elem), bytes_(elem_bytes(elem) * (static_cast<std::size_t>(count) + 1)) {}

  static TestTensor random(std::int64_t count, Elem elem, float scale, std::uint32_t seed) {
    TestTensor t(count, elem);
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (std::int64_t i = 0; i < count; ++i) t.set(i, uniform(engine));
    return t;
  }

  Elem elem() const { return elem_; }
  void* data() { return bytes_.data() + elem_bytes(elem_); }
  const void* data() const { return bytes_.data() + elem_bytes(elem_); }

  void set(std::int64_t i, float v) {
    const std::uint16_t half = to_bf16(v);
    const bool f32 = elem_ == Elem::F32;
    std::memcpy(at(i), f32 ? static_cast<const void*>(&v) : &half, elem_bytes(elem_));
  }
  double get(std::int64_t i) const {
    if (elem_ == Elem::F32) {
      float v = 0;
      std::memcpy(&v, at(i), 4);
      return static_cast<double>(v);
    }
    std::uint16_t v = 0;
    std::memcpy(&v, at(i), 2);
    return static_cast<double>(from_bf16(v));
  }
  bool operator==(const TestTensor&) const = default;

 private:
  unsigned char* at(std::int64_t i) {
    return bytes_.data() + elem_bytes(elem_) * (static_cast<std::size_t>(i) + 1);
  }
  const unsigned char* at(std::int64_t i) const {
    return bytes_.data() + elem_bytes(elem_) * (static_cast<std::size_t>(i) + 1);
  }

  Elem elem_;
  std::vector<unsigned char> bytes_;
};

// 64-byte aligned memory of exactly `bytes` bytes.
class TestScratch {
 public:
  explicit TestScratch(std::size_t bytes) : memory_(bytes + 64) {}
  void* data() {
    const auto p = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (64 - p % 64) % 64;
  }

 private:
  std::vector<unsigned char> memory_;
};

}  // namespace difflet::cpu::testing
