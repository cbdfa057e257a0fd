// The shapes of the programs of a FLUX pipeline.
#pragma once

#include <cstdint>

#include "difflet/models/common/component.h"

namespace difflet::pipelines {

struct ProgramSize {
  std::int64_t n = 1;  // pictures
  std::int64_t latent_height = 128, latent_width = 128;
  std::int64_t clip_tokens = 0;  // 0: all that the encoder has positions for
  std::int64_t t5_tokens = 512;
};

// Inputs of a component of this size: text encoders and the decoder take one prompt or picture at a
// time, the transformer all n. Throws Unsupported for a component that FLUX does not have.
models::ShapeMap flux_shapes(const models::Component& component, const ProgramSize& size);

}  // namespace difflet::pipelines
