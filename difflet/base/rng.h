// Random numbers that equal torch's CPU generator: MT19937 and torch.randn of torch 2.15, bit for bit
// what torch gives on processors with AVX2 (AVX-512 included).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace difflet {

class TorchGenerator {
 public:
  // As torch.Generator().manual_seed(seed): the low 32 bits seed the twister.
  explicit TorchGenerator(std::uint64_t seed);

  std::uint32_t next32() noexcept;
  std::uint64_t next64() noexcept;  // first word high

  // Fills `out` as torch.randn(out.size(), dtype=float32, generator=this); 16 or more elements take
  // torch's blockwise Box-Muller, fewer the scalar one (its cached second value survives the call).
  void randn(std::span<float> out);
  // The f32 values whose rounding to bf16/f16 equals torch.randn(n, dtype=bfloat16/float16): differs
  // from randn() in how many words are drawn when n is not a multiple of 16.
  void randn_half(std::span<float> out);

 private:
  void refill() noexcept;
  float normal_scalar() noexcept;

  std::array<std::uint32_t, 624> state_{};
  std::uint32_t next_ = 624;
  std::optional<double> cached_normal_;
};

}  // namespace difflet
