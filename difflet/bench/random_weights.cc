#include "difflet/bench/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

constexpr std::size_t kLanes = 4;  // values of 16 random bits that one 64-bit word gives

// FNV-1a; std::hash differs between standard libraries.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

// The counter-th word of the stream `seed` (splitmix64).
std::uint64_t random_word(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

// Calls put(index, value) for every element. A center goes with a spread that is a power of two: then
// the product is exact, and a fused multiply-add rounds as the two steps do.
template <typename Put>
void each_value(std::string_view name, Distribution d, std::uint64_t first, std::size_t count,
                const Put& put) {
  require(first % kLanes == 0, "parts begin at whole words");
  const std::uint64_t seed = hash_name(name);
  const float step = d.spread / 32768;
  const auto value = [&](std::uint64_t word, std::size_t lane) {
    const auto bits = static_cast<std::int16_t>(word >> (16U * lane));
    return d.center + static_cast<float>(bits) * step;
  };
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    const std::uint64_t word = random_word(seed, (first + i) / kLanes);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      put(i + lane, value(word, lane));
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    put(i, value(random_word(seed, (first + whole) / kLanes), i - whole));
  }
}

bool contains_any(std::string_view name, std::span<const std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (name.find(part) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

Distribution distribution_of(std::string_view name, const Shape& shape) {
  constexpr float kBias = 0.017F;
  // Deviation 1 / sqrt(inputs) of each weight keeps the deviation of a sum; of a uniform value it is
  // spread / sqrt(3).
  constexpr double kUnit = 1.7;
  constexpr std::array<std::string_view, 3> kTables{"shared.weight", "_embedding.weight",
                                                    "relative_attention_bias.weight"};
  if (shape.rank() == 1) {
    return name.ends_with("weight") ? Distribution{.center = 1, .spread = 0.125F}
                                    : Distribution{.center = 0, .spread = kBias};
  }
  if (contains_any(name, kTables)) {
    return {.center = 0, .spread = 1};
  }
  const std::int64_t inputs = shape.elements() / std::max<std::int64_t>(shape[0], 1);
  auto spread = static_cast<float>(kUnit / std::sqrt(static_cast<double>(inputs)));
  if (name.find("SelfAttention.q.") != std::string_view::npos) {
    spread /= 8;  // T5 does not scale its scores by 1 / sqrt(64)
  }
  if (name == "decoder.conv_out.weight") {
    spread /= 2;  // few pixels beyond black and white
  }
  return {.center = 0, .spread = spread};
}

void fill_random(std::string_view name, Distribution distribution, std::uint64_t first,
                 std::span<std::uint16_t> out) {
  each_value(name, distribution, first, out.size(),
             [&](std::size_t i, float v) { out[i] = f32_to_bf16(v); });
}

HostTensor random_weight(std::string_view name, DType dtype, const Shape& shape) {
  HostTensor t(dtype, shape);
  const Distribution distribution = distribution_of(name, shape);
  if (dtype == DType::F32) {
    const auto out = t.mutable_as<float>();
    each_value(name, distribution, 0, out.size(), [&](std::size_t i, float v) { out[i] = v; });
  } else {
    check(dtype == DType::BF16, ErrorCode::Unsupported, "random weights in {}", dtype_name(dtype));
    fill_random(name, distribution, 0, t.mutable_as<std::uint16_t>());
  }
  return t;
}

HostTensor random_tensor(const Shape& shape, std::uint32_t seed) {
  HostTensor t(DType::F32, shape);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& v : t.mutable_as<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
  }
  return t;
}

}  // namespace difflet::bench
