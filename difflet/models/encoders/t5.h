// T5EncoderModel (v1.0 and v1.1): the token embeddings of FLUX.
#pragma once

#include "difflet/models/common/component.h"
#include "difflet/models/common/config_reader.h"

namespace difflet::encoders {

struct T5Config {
  std::int64_t vocab_size = 32128;
  std::int64_t d_model = 512;
  std::int64_t d_kv = 64;
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;
  std::int64_t num_heads = 8;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;
  graph::Activation activation = graph::Activation::Relu;
  bool gated = false;  // feed_forward_proj "gated-...": wi_0 and wi_1
};

T5Config read_t5_config(models::ConfigReader& reader);

// Relative position bucket of key - query (bidirectional).
std::int64_t t5_bucket(std::int64_t relative, const T5Config& config);

// Input: input_ids i32 [B, L]; no mask, so padding takes part, as FLUX has it. Output:
// last_hidden_state [B, L, D].
class T5Encoder : public models::Component {
 public:
  explicit T5Encoder(T5Config config) : config_(config) {}
  graph::Graph trace(const models::ShapeMap& inputs, DType dtype,
                     const spmd::Mesh& mesh) const override;
  bool ignores(std::string_view tensor) const override;
  std::vector<models::QuantRule> quant_rules() const override;
  const T5Config& config() const { return config_; }

 private:
  T5Config config_;
};

}  // namespace difflet::encoders
