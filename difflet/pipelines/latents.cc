#include "difflet/pipelines/latents.h"

#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/rng.h"
#include "difflet/sampling/rounding.h"

namespace difflet::pipelines {
namespace {

// Calls move(unpacked index, packed index) for every value.
template <typename Move>
void for_each_pair(const LatentSize& s, const Move& move) {
  const std::int64_t columns = s.width / 2;
  std::int64_t unpacked = 0;
  for (std::int64_t i = 0; i < s.n; ++i) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      for (std::int64_t y = 0; y < s.height; ++y) {
        for (std::int64_t x = 0; x < s.width; ++x, ++unpacked) {
          const std::int64_t token = i * s.tokens() + (y / 2) * columns + x / 2;
          const std::int64_t channel = c * 4 + (y % 2) * 2 + x % 2;
          move(static_cast<std::size_t>(unpacked),
               static_cast<std::size_t>(token * 4 * s.channels + channel));
        }
      }
    }
  }
}

// Values keep their bits: a conversion to f32 and back is exact.
template <typename Source>
HostTensor rearranged(const HostTensor& from, const Shape& shape, const LatentSize& size,
                      const Source& source) {
  const std::vector<float> values = from.to_floats();
  HostTensor out(DType::F32, shape);
  const std::span<float> to = out.mutable_as<float>();
  for_each_pair(size, [&](std::size_t unpacked, std::size_t packed) {
    source(to, values, unpacked, packed);
  });
  return out.to(from.dtype());
}

}  // namespace

HostTensor pack_latents(const HostTensor& latents) {
  const Shape& shape = latents.shape();
  require(shape.rank() == 4 && shape[2] % 2 == 0 && shape[3] % 2 == 0, "latents that do not pack");
  const LatentSize size{shape[0], shape[1], shape[2], shape[3]};
  return rearranged(latents, {size.n, size.tokens(), 4 * size.channels}, size,
                    [](std::span<float> to, const std::vector<float>& from, std::size_t unpacked,
                       std::size_t packed) { to[packed] = from[unpacked]; });
}

HostTensor unpack_latents(const HostTensor& packed_latents, const LatentSize& size) {
  return rearranged(packed_latents, {size.n, size.channels, size.height, size.width}, size,
                    [](std::span<float> to, const std::vector<float>& from, std::size_t unpacked,
                       std::size_t packed) { to[unpacked] = from[packed]; });
}

HostTensor initial_latents(const LatentSize& size, std::uint64_t seed, DType dtype) {
  HostTensor noise(DType::F32, {size.n, size.channels, size.height, size.width});
  TorchGenerator generator(seed);
  if (dtype == DType::F32) {
    generator.randn(noise.mutable_as<float>());
  } else {
    generator.randn_half(noise.mutable_as<float>());
  }
  return pack_latents(noise.to(dtype));
}

HostTensor image_positions(const LatentSize& size, DType dtype) {
  const auto columns = static_cast<std::size_t>(size.width / 2);
  return sampling::make_tensor(DType::F32, {size.tokens(), 3}, [&](std::size_t k) {
    const std::size_t token = k / 3;
    const std::size_t axis = k % 3;
    const std::size_t position = axis == 0 ? 0 : axis == 1 ? token / columns : token % columns;
    return sampling::rounded(static_cast<float>(position), dtype);
  });
}

HostTensor unscale_latents(const HostTensor& latents, double scaling, double shift) {
  const DType dtype = latents.dtype();
  const std::vector<float> values = latents.to_floats();
  return sampling::make_tensor(dtype, latents.shape(), [&](std::size_t k) {
    return sampling::rounded(values[k] / static_cast<float>(scaling), dtype) +
           static_cast<float>(shift);
  });
}

}  // namespace difflet::pipelines
