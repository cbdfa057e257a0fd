// FluxTransformer2DModel: the denoiser of FLUX.1-dev and -schnell.
#pragma once

#include "difflet/models/common/component.h"
#include "difflet/models/flux/config.h"

namespace difflet::flux {

// Inputs: hidden_states [B, I, in_channels], encoder_hidden_states [B, T, joint_attention_dim],
// pooled_projections [B, pooled_projection_dim], timestep [B] (t / 1000), img_ids [I, 3] and
// txt_ids [T, 3] f32, guidance [B] f32 when the model embeds it. Output: sample [B, I, out_channels].
class Transformer : public models::Component {
 public:
  explicit Transformer(Config config) : config_(std::move(config)) {}
  graph::Graph trace(const models::ShapeMap& inputs, DType dtype,
                     const spmd::Mesh& mesh) const override;
  std::vector<models::QuantRule> quant_rules() const override;
  const Config& config() const { return config_; }

 private:
  Config config_;
};

}  // namespace difflet::flux
