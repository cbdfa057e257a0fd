#include "difflet/pipelines/flux_shapes.h"

#include "difflet/base/error.h"
#include "difflet/models/autoencoders/kl.h"
#include "difflet/models/encoders/clip.h"
#include "difflet/models/encoders/t5.h"
#include "difflet/models/flux/transformer.h"

namespace difflet::pipelines {
namespace {

models::ShapeMap transformer_shapes(const flux::Config& c, const ProgramSize& size) {
  const std::int64_t tokens = (size.latent_height / 2) * (size.latent_width / 2);
  models::ShapeMap shapes{
      {"hidden_states", {size.n, tokens, c.in_channels}},
      {"encoder_hidden_states", {size.n, size.t5_tokens, c.joint_attention_dim}},
      {"pooled_projections", {size.n, c.pooled_projection_dim}},
      {"timestep", {size.n}},
      {"img_ids", {tokens, static_cast<std::int64_t>(c.axes_dims_rope.size())}},
      {"txt_ids", {size.t5_tokens, static_cast<std::int64_t>(c.axes_dims_rope.size())}},
  };
  if (c.guidance_embeds) {
    shapes.emplace("guidance", Shape{size.n});
  }
  return shapes;
}

}  // namespace

models::ShapeMap flux_shapes(const models::Component& component, const ProgramSize& size) {
  if (const auto* clip = dynamic_cast<const encoders::ClipTextModel*>(&component)) {
    const std::int64_t all = clip->config().max_position_embeddings;
    return {{"input_ids", {1, size.clip_tokens > 0 ? size.clip_tokens : all}}};
  }
  if (dynamic_cast<const encoders::T5Encoder*>(&component) != nullptr) {
    return {{"input_ids", {1, size.t5_tokens}}};
  }
  if (const auto* flux = dynamic_cast<const flux::Transformer*>(&component)) {
    return transformer_shapes(flux->config(), size);
  }
  if (const auto* vae = dynamic_cast<const autoencoders::KlDecoder*>(&component)) {
    return {{"z", {1, vae->config().latent_channels, size.latent_height, size.latent_width}}};
  }
  fail(ErrorCode::Unsupported, "a component that no FLUX pipeline has");
}

}  // namespace difflet::pipelines
