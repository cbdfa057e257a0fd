#include "difflet/base/rng.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace difflet {
namespace {

// Matsumoto and Nishimura, "Mersenne Twister", 1998, with the seeding of 2002.
constexpr std::size_t kState = 624;
constexpr std::size_t kShift = 397;
constexpr std::size_t kBlock = 16;  // elements that torch transforms together
constexpr std::size_t kHalf = kBlock / 2;

constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;

constexpr std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7fffffffU);
  return (mixed >> 1U) ^ ((low & 1U) != 0U ? 0x9908b0dfU : 0U);
}

// 24 random bits in [0, 1), as torch's uniform_real_distribution<float>.
float uniform_f32(TorchGenerator& g) {
  return static_cast<float>(g.next32() & 0xffffffU) * 0x1p-24F;
}

// The logarithm and the sine of torch's vector code for normal numbers (avx_mathfun by G. Garberoglio
// after J. Pommier, with the polynomials of S. Moshier's Cephes), one lane of it. Each fma is one that
// the compiler makes of torch's source for processors with AVX2, so results agree bit for bit there;
// torch on older processors uses other code and differs by up to 2e-6.
float cephes_log(float x) {
  constexpr std::array<float, 9> kP = {7.0376836292E-2F,  -1.1514610310E-1F, 1.1676998740E-1F,
                                       -1.2420140846E-1F, 1.4249322787E-1F,  -1.6668057665E-1F,
                                       2.0000714765E-1F,  -2.4999993993E-1F, 3.3333331174E-1F};
  constexpr float kLn2High = 355.0F / 512.0F;  // exact, so that exponent * kLn2High is
  constexpr float kLn2Low = -2.12194440e-4F;
  const auto bits = std::bit_cast<std::uint32_t>(x);  // 2^-24 <= x <= 1
  auto exponent = static_cast<float>(static_cast<int>(bits >> 23U) - 126);
  auto m = std::bit_cast<float>((bits & 0x007fffffU) | 0x3f000000U);  // [0.5, 1)
  if (m < 0.707106781186547524F) {
    exponent -= 1.0F;
    m = (m - 1.0F) + m;
  } else {
    m -= 1.0F;
  }
  const float square = m * m;
  float y = kP[0];
  for (std::size_t i = 1; i < kP.size(); ++i) {
    y = std::fma(y, m, kP[i]);
  }
  y = std::fma(y * m, square, exponent * kLn2Low);
  y = std::fma(-square, 0.5F, y);
  return std::fma(exponent, kLn2High, m + y);
}

struct SinCos {
  float sine, cosine;
};

SinCos cephes_sincos(float x) {  // 0 <= x <= 2 pi
  const int octant = (static_cast<int>(x * 1.27323954473516F) + 1) & ~1;
  const auto turns = static_cast<float>(octant);
  x = std::fma(turns, -0.78515625F, x);  // pi/4 in three parts
  x = std::fma(turns, -2.4187564849853515625e-4F, x);
  x = std::fma(turns, -3.77489497744594108e-8F, x);
  const float z = x * x;
  float c = std::fma(2.443315711809948E-005F, z, -1.388731625493765E-003F);
  c = std::fma(c, z, 4.166664568298827E-002F) * z;
  c = std::fma(c, z, -(z * 0.5F)) + 1.0F;
  float s = std::fma(-1.9515295891E-4F, z, 8.3321608736E-3F);
  s = std::fma(s, z, -1.6666654611E-1F) * z;
  s = std::fma(s, x, x);
  if ((octant & 2) != 0) {
    std::swap(s, c);
  }
  const bool second_half = (octant & 4) != 0;
  const bool cosine_negative = ((octant - 2) & 4) == 0;
  return {second_half ? -s : s, cosine_negative ? -c : c};
}

// Box-Muller on one block: entries 0..7 are radii, 8..15 angles.
void normal_block(std::span<float, kBlock> d) {
  for (std::size_t j = 0; j < kHalf; ++j) {
    const float radius = std::sqrt(-2.0F * cephes_log(1.0F - d[j]));
    const SinCos angle = cephes_sincos(kTwoPi * d[j + kHalf]);
    d[j] = radius * angle.cosine;
    d[j + kHalf] = radius * angle.sine;
  }
}

// Draws `uniforms` numbers into the front of `out` (16 or more), transforms whole blocks, and when
// the size is no multiple of 16 draws and transforms the last 16 entries anew.
void fill_blocks(TorchGenerator& g, std::span<float> out, std::size_t uniforms) {
  for (float& x : out.first(uniforms)) {
    x = uniform_f32(g);
  }
  for (std::size_t o = 0; o + kBlock <= out.size(); o += kBlock) {
    normal_block(out.subspan(o).first<kBlock>());
  }
  if (out.size() % kBlock != 0) {
    const auto tail = out.last<kBlock>();
    for (float& x : tail) {
      x = uniform_f32(g);
    }
    normal_block(tail);
  }
}

}  // namespace

TorchGenerator::TorchGenerator(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed);
  for (std::size_t i = 1; i < kState; ++i) {
    const std::uint32_t last = state_[i - 1];
    state_[i] = 1812433253U * (last ^ (last >> 30U)) + static_cast<std::uint32_t>(i);
  }
}

void TorchGenerator::refill() noexcept {
  for (std::size_t i = 0; i < kState; ++i) {
    const std::size_t next = i + 1 < kState ? i + 1 : 0;
    const std::size_t far = i + kShift < kState ? i + kShift : i + kShift - kState;
    state_[i] = state_[far] ^ twist(state_[i], state_[next]);
  }
  next_ = 0;
}

std::uint32_t TorchGenerator::next32() noexcept {
  if (next_ == kState) {
    refill();
  }
  std::uint32_t y = state_[next_++];
  y ^= y >> 11U;
  y ^= (y << 7U) & 0x9d2c5680U;
  y ^= (y << 15U) & 0xefc60000U;
  return y ^ (y >> 18U);
}

std::uint64_t TorchGenerator::next64() noexcept {
  const std::uint64_t high = next32();
  return (high << 32U) | next32();
}

// torch's normal_distribution<double>: 53-bit uniforms, radius from the second one, the sine kept.
float TorchGenerator::normal_scalar() noexcept {
  if (cached_normal_) {
    const double kept = *cached_normal_;
    cached_normal_.reset();
    return static_cast<float>(kept);
  }
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 53U) - 1;
  const double u1 = static_cast<double>(next64() & kMask) * 0x1p-53;
  const double u2 = static_cast<double>(next64() & kMask) * 0x1p-53;
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  cached_normal_ = radius * std::sin(angle);
  return static_cast<float>(radius * std::cos(angle));
}

void TorchGenerator::randn(std::span<float> out) {
  if (out.size() >= kBlock) {
    fill_blocks(*this, out, out.size());
    return;
  }
  for (float& x : out) {
    x = normal_scalar();
  }
}

void TorchGenerator::randn_half(std::span<float> out) {
  if (out.size() >= kBlock) {
    fill_blocks(*this, out, out.size() / kBlock * kBlock);
    return;
  }
  for (float& x : out) {
    x = normal_scalar();
  }
}

}  // namespace difflet
