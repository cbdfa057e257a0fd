#include "difflet/models/encoders/clip.h"

#include "difflet/base/error.h"
#include "difflet/models/encoders/activation.h"
#include "difflet/nn/layers.h"

namespace difflet::encoders {
namespace {

using ops::Tensor;

// Parameters carry the "text_model." prefix of transformers 4; transformers 5 saves them without it.
constexpr std::string_view kPrefix = "text_model.";

class Layer {
 public:
  Layer(const nn::Scope& s, const ClipConfig& c)
      : scope_(s),
        heads_(c.num_attention_heads),
        act_(c.hidden_act),
        norm1_(s / "layer_norm1", c.hidden_size, c.layer_norm_eps),
        q_(s / "self_attn" / "q_proj", c.hidden_size, c.hidden_size),
        k_(s / "self_attn" / "k_proj", c.hidden_size, c.hidden_size),
        v_(s / "self_attn" / "v_proj", c.hidden_size, c.hidden_size),
        out_(s / "self_attn" / "out_proj", c.hidden_size, c.hidden_size),
        norm2_(s / "layer_norm2", c.hidden_size, c.layer_norm_eps),
        fc1_(s / "mlp" / "fc1", c.hidden_size, c.intermediate_size),
        fc2_(s / "mlp" / "fc2", c.intermediate_size, c.hidden_size) {}

  Tensor operator()(Tensor x) const {  // [B, L, D]
    const auto entered = scope_.enter();
    const auto heads = [&](Tensor t) { return ops::split_heads(t, heads_); };
    const Tensor n = norm1_(x);
    const Tensor attn = ops::attention(heads(q_(n)), heads(k_(n)), heads(v_(n)), {.causal = true});
    x = x + out_(ops::merge_heads(attn));
    return x + fc2_(ops::activate(fc1_(norm2_(x)), act_));
  }

 private:
  nn::Scope scope_;
  std::int64_t heads_;
  graph::Activation act_;
  nn::LayerNorm norm1_;
  nn::Linear q_, k_, v_, out_;
  nn::LayerNorm norm2_;
  nn::Linear fc1_, fc2_;
};

// Where the sentence ends: the first id equal to eos. The configs that carry the id 2 are older than
// the real one; for them the end is the first place of the largest id.
Tensor end_position(Tensor ids, std::int64_t eos) {
  if (eos == 2) {
    return ops::argmax(ids, -1);
  }
  const Tensor is_end =
      ops::equal(ids, ops::scalar(*ids.graph, DType::I32, static_cast<double>(eos)));
  return ops::argmax(ops::convert(is_end, DType::I32), -1);
}

}  // namespace

ClipConfig read_clip_config(models::ConfigReader& r) {
  ClipConfig c;
  c.vocab_size = r.integer("vocab_size", c.vocab_size);
  c.hidden_size = r.integer("hidden_size", c.hidden_size, {1, 65536});
  c.intermediate_size = r.integer("intermediate_size", c.intermediate_size);
  c.num_hidden_layers = r.integer("num_hidden_layers", c.num_hidden_layers, {1, 1000});
  c.num_attention_heads = r.integer("num_attention_heads", c.num_attention_heads, {1, 4096});
  c.max_position_embeddings = r.integer("max_position_embeddings", c.max_position_embeddings);
  const auto act = parse_activation(r.text("hidden_act", "quick_gelu"));
  if (!act) {
    r.refuse("hidden_act", "quick_gelu, gelu, gelu_new, silu and relu are");
  }
  c.hidden_act = *act;
  c.layer_norm_eps = r.number("layer_norm_eps", c.layer_norm_eps);
  c.eos_token_id = r.integer("eos_token_id", c.eos_token_id, {0, 1 << 20});
  r.ignore({"architectures", "attention_dropout", "bos_token_id", "pad_token_id", "dropout",
            "dtype", "torch_dtype", "initializer_factor", "initializer_range", "model_type",
            "projection_dim", "transformers_version", "use_cache", "tie_word_embeddings",
            "is_decoder"});
  check(c.hidden_size % c.num_attention_heads == 0, ErrorCode::InvalidArgument,
        "{}: num_attention_heads {} does not divide hidden_size {}", r.origin(),
        c.num_attention_heads, c.hidden_size);
  return c;
}

bool ClipTextModel::ignores(std::string_view tensor) const {
  return tensor == "text_projection.weight" || tensor.ends_with("embeddings.position_ids");
}

graph::Graph ClipTextModel::trace(const models::ShapeMap& inputs, DType dtype,
                                  const spmd::Mesh& mesh) const {
  const ClipConfig& c = config_;
  models::check_input_names(inputs, {"input_ids"});
  const Shape ids_shape = models::input_shape(inputs, "input_ids", 2);
  const std::int64_t batch = ids_shape[0];
  const std::int64_t length = ids_shape[1];
  check(length <= c.max_position_embeddings, ErrorCode::InvalidArgument,
        "input 'input_ids' {}: at most {} tokens (max_position_embeddings)", ids_shape.str(),
        c.max_position_embeddings);

  graph::Graph g("clip_text_model", mesh);
  const nn::Scope s(g, dtype, "text_model");
  const Tensor ids = ops::input(g, "input_ids", DType::I32, ids_shape, graph::Binding::Request);
  const nn::Embedding tokens(s / "embeddings" / "token_embedding", c.vocab_size, c.hidden_size);
  const nn::Embedding positions(s / "embeddings" / "position_embedding", c.max_position_embeddings,
                                c.hidden_size);
  Tensor x = tokens(ids) + ops::slice(positions.table(), 0, 0, length);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    x = Layer(s / "encoder" / "layers" / i, c)(x);
  }
  x = nn::LayerNorm(s / "final_layer_norm", c.hidden_size, c.layer_norm_eps)(x);
  ops::output("last_hidden_state", x);

  const Tensor row = ops::iota(g, DType::I32, Shape{batch}, 0) * static_cast<double>(length) +
                     end_position(ids, c.eos_token_id);
  ops::output("pooler_output", ops::gather(ops::reshape(x, {batch * length, c.hidden_size}), row));
  return g;
}

}  // namespace difflet::encoders
