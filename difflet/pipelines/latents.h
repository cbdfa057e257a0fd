// The latents of a FLUX picture: noise, packing 2 x 2 into tokens, positions, and the way back.
#pragma once

#include <cstdint>

#include "difflet/tensor/host_tensor.h"

namespace difflet::pipelines {

struct LatentSize {
  std::int64_t n = 1;                  // pictures
  std::int64_t channels = 0;           // C
  std::int64_t height = 0, width = 0;  // h, w: even

  std::int64_t tokens() const { return (height / 2) * (width / 2); }  // I
};

// torch.randn([n, C, h, w], dtype) of one CPU generator with this seed, packed: [n, I, 4 C],
// channel c * 4 + dy * 2 + dx, tokens by rows.
HostTensor initial_latents(const LatentSize& size, std::uint64_t seed, DType dtype);
HostTensor pack_latents(const HostTensor& latents);                           // [n, C, h, w]
HostTensor unpack_latents(const HostTensor& packed, const LatentSize& size);  // [n, C, h, w]

// [I, 3] f32 (0, y, x), rounded to `dtype` as the original's are.
HostTensor image_positions(const LatentSize& size, DType dtype);

// latents / scaling + shift, each result rounded to the latents' dtype.
HostTensor unscale_latents(const HostTensor& latents, double scaling, double shift);

}  // namespace difflet::pipelines
