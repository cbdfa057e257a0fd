#include "difflet/models/encoders/t5.h"

#include <cmath>

#include "difflet/base/error.h"
#include "difflet/models/encoders/activation.h"
#include "difflet/nn/layers.h"

namespace difflet::encoders {
namespace {

using ops::Tensor;

class FeedForward {
 public:
  FeedForward(const nn::Scope& s, const T5Config& c)
      : act_(c.activation),
        in_(s / (c.gated ? "wi_0" : "wi"), c.d_model, c.d_ff, nn::Bias::No),
        out_(s / "wo", c.d_ff, c.d_model, nn::Bias::No) {
    if (c.gated) {
      gate_.emplace(s / "wi_1", c.d_model, c.d_ff, nn::Bias::No);
    }
  }
  Tensor operator()(Tensor x) const {
    const Tensor h = ops::activate(in_(x), act_);
    return out_(gate_ ? h * (*gate_)(x) : h);
  }

 private:
  graph::Activation act_;
  nn::Linear in_, out_;
  std::optional<nn::Linear> gate_;
};

class Block {
 public:
  Block(const nn::Scope& s, const T5Config& c)
      : scope_(s),
        heads_(c.num_heads),
        norm1_(s / "layer.0.layer_norm", c.d_model, c.layer_norm_epsilon),
        q_(s / "layer.0.SelfAttention.q", c.d_model, c.num_heads * c.d_kv, nn::Bias::No),
        k_(s / "layer.0.SelfAttention.k", c.d_model, c.num_heads * c.d_kv, nn::Bias::No),
        v_(s / "layer.0.SelfAttention.v", c.d_model, c.num_heads * c.d_kv, nn::Bias::No),
        o_(s / "layer.0.SelfAttention.o", c.num_heads * c.d_kv, c.d_model, nn::Bias::No),
        norm2_(s / "layer.1.layer_norm", c.d_model, c.layer_norm_epsilon),
        ff_(s / "layer.1.DenseReluDense", c) {}

  // bias [1, H, L, L] f32; scores are not scaled.
  Tensor operator()(Tensor x, Tensor bias) const {
    const auto entered = scope_.enter();
    const auto heads = [&](Tensor t) { return ops::split_heads(t, heads_); };
    const Tensor n = norm1_(x);
    const Tensor attn =
        ops::attention(heads(q_(n)), heads(k_(n)), heads(v_(n)), {.scale = 1.0, .bias = bias});
    x = x + o_(ops::merge_heads(attn));
    return x + ff_(norm2_(x));
  }

 private:
  nn::Scope scope_;
  std::int64_t heads_;
  nn::RmsNorm norm1_;
  nn::Linear q_, k_, v_, o_;
  nn::RmsNorm norm2_;
  FeedForward ff_;
};

// [1, H, L, L] f32 from the table of the first block, through the 2L - 1 distances.
Tensor position_bias(const nn::Scope& s, const T5Config& c, std::int64_t length) {
  const nn::Scope scope = s / "block.0.layer.0.SelfAttention.relative_attention_bias";
  const nn::Embedding table(scope, c.relative_attention_num_buckets, c.num_heads);
  std::vector<std::int32_t> buckets;
  for (std::int64_t relative = 1 - length; relative < length; ++relative) {
    buckets.push_back(static_cast<std::int32_t>(t5_bucket(relative, c)));
  }
  graph::Graph& g = s.graph();
  const Tensor by_distance =
      ops::gather(ops::convert(table.table(), DType::F32),
                  ops::constant(g, HostTensor::from(Shape{2 * length - 1}, buckets)));  // [2L-1, H]
  const Shape square{length, length};
  const Tensor distance = ops::iota(g, DType::I32, square, 1) -
                          ops::iota(g, DType::I32, square, 0) + static_cast<double>(length - 1);
  const Tensor bias = ops::gather(by_distance, distance);  // [query, key, H]
  return ops::unsqueeze(ops::transpose(bias, {2, 0, 1}), 0);
}

}  // namespace

T5Config read_t5_config(models::ConfigReader& r) {
  T5Config c;
  c.vocab_size = r.integer("vocab_size", c.vocab_size);
  c.d_model = r.integer("d_model", c.d_model, {1, 65536});
  c.d_kv = r.integer("d_kv", c.d_kv, {1, 4096});
  c.d_ff = r.integer("d_ff", c.d_ff);
  c.num_layers = r.integer("num_layers", c.num_layers, {1, 1000});
  c.num_heads = r.integer("num_heads", c.num_heads, {1, 4096});
  c.relative_attention_num_buckets = r.integer("relative_attention_num_buckets", 32, {4, 4096});
  c.relative_attention_max_distance =
      r.integer("relative_attention_max_distance", 128, {2, 1 << 20});
  c.layer_norm_epsilon = r.number("layer_norm_epsilon", c.layer_norm_epsilon);
  std::string projection = r.text("feed_forward_proj", "relu");
  constexpr std::string_view kGated = "gated-";
  if (projection.starts_with(kGated)) {
    c.gated = true;
    projection.erase(0, kGated.size());
    // transformers reads "gated-gelu" as the tanh form, for the checkpoints of T5 v1.1.
    projection = projection == "gelu" ? "gelu_new" : projection;
  }
  const auto act = parse_activation(projection);
  if (!act) {
    r.refuse("feed_forward_proj", "relu, gelu, silu and their gated- forms are");
  }
  c.activation = *act;
  r.ignore({"architectures",
            "classifier_dropout",
            "decoder_start_token_id",
            "dense_act_fn",
            "dropout_rate",
            "dtype",
            "torch_dtype",
            "eos_token_id",
            "initializer_factor",
            "is_decoder",
            "is_encoder_decoder",
            "is_gated_act",
            "model_type",
            "num_decoder_layers",
            "output_past",
            "pad_token_id",
            "scale_decoder_outputs",
            "tie_word_embeddings",
            "transformers_version",
            "use_cache",
            "n_positions",
            "task_specific_params",
            "bos_token_id"});
  return c;
}

std::int64_t t5_bucket(std::int64_t relative, const T5Config& c) {
  const std::int64_t half = c.relative_attention_num_buckets / 2;
  const std::int64_t exact = half / 2;
  const std::int64_t distance = relative < 0 ? -relative : relative;
  const std::int64_t side = relative > 0 ? half : 0;
  if (distance < exact) {
    return side + distance;
  }
  // In f32, as the original.
  const float ratio =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(c.relative_attention_max_distance) /
                                  static_cast<double>(exact)));
  const auto step = static_cast<std::int64_t>(ratio * static_cast<float>(half - exact));
  return side + std::min(exact + step, half - 1);
}

bool T5Encoder::ignores(std::string_view tensor) const {
  return tensor == "encoder.embed_tokens.weight" || tensor == "lm_head.weight" ||
         tensor.starts_with("decoder.");
}

std::vector<models::QuantRule> T5Encoder::quant_rules() const {
  std::vector<models::QuantRule> rules;
  for (const std::string_view pattern :
       {"encoder.block.*.SelfAttention.q.weight", "encoder.block.*.SelfAttention.k.weight",
        "encoder.block.*.SelfAttention.v.weight", "encoder.block.*.SelfAttention.o.weight"}) {
    rules.push_back({pattern, "attention"});
  }
  rules.push_back({"encoder.block.*.DenseReluDense.w*.weight", "feed_forward"});
  return rules;
}

graph::Graph T5Encoder::trace(const models::ShapeMap& inputs, DType dtype,
                              const spmd::Mesh& mesh) const {
  const T5Config& c = config_;
  models::check_input_names(inputs, {"input_ids"});
  const Shape ids_shape = models::input_shape(inputs, "input_ids", 2);
  graph::Graph g("t5_encoder", mesh);
  const nn::Scope root(g, dtype);
  const nn::Scope s = root / "encoder";
  const Tensor ids = ops::input(g, "input_ids", DType::I32, ids_shape, graph::Binding::Request);
  Tensor x =
      nn::Embedding(root / "shared", c.vocab_size, c.d_model, {"encoder.embed_tokens.weight"})(ids);
  const Tensor bias = position_bias(s, c, ids_shape[1]);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    x = Block(s / "block" / i, c)(x, bias);
  }
  ops::output("last_hidden_state",
              nn::RmsNorm(s / "final_layer_norm", c.d_model, c.layer_norm_epsilon)(x));
  return g;
}

}  // namespace difflet::encoders
