// CLIPTextModel: the pooled text embedding of FLUX (and later HunyuanVideo).
#pragma once

#include "difflet/models/common/component.h"
#include "difflet/models/common/config_reader.h"

namespace difflet::encoders {

struct ClipConfig {
  std::int64_t vocab_size = 49408;
  std::int64_t hidden_size = 512;
  std::int64_t intermediate_size = 2048;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 8;
  std::int64_t max_position_embeddings = 77;
  graph::Activation hidden_act = graph::Activation::QuickGelu;
  double layer_norm_eps = 1e-5;
  std::int64_t eos_token_id = 49407;
};

ClipConfig read_clip_config(models::ConfigReader& reader);

// Input: input_ids i32 [B, L]. Outputs: last_hidden_state [B, L, D], pooler_output [B, D].
class ClipTextModel : public models::Component {
 public:
  explicit ClipTextModel(ClipConfig config) : config_(config) {}
  graph::Graph trace(const models::ShapeMap& inputs, DType dtype,
                     const spmd::Mesh& mesh) const override;
  bool ignores(std::string_view tensor) const override;
  const ClipConfig& config() const { return config_; }

 private:
  ClipConfig config_;
};

}  // namespace difflet::encoders
