#include "difflet/models/flux/transformer.h"

#include "difflet/base/error.h"
#include "difflet/models/flux/blocks.h"

namespace difflet::flux {
namespace {

using graph::Binding;

constexpr std::int64_t kSinusoids = 256;  // width of the timestep projection
constexpr double kRopeTheta = 10000;
constexpr double kTrainSteps = 1000;  // the model multiplies timestep and guidance by it

// CombinedTimestep[Guidance]TextProjEmbeddings.
class Conditioning {
 public:
  Conditioning(const nn::Scope& s, const Config& c)
      : timestep_(s / "timestep_embedder", kSinusoids, c.width()),
        text_(s / "text_embedder", c.pooled_projection_dim, c.width()) {
    if (c.guidance_embeds) {
      guidance_.emplace(s / "guidance_embedder", kSinusoids, c.width());
    }
  }

  // timestep [B], guidance [B] or none, pooled [B, P] -> [B, D].
  Tensor operator()(Tensor timestep, Tensor guidance, Tensor pooled) const {
    Tensor sum = embed(timestep_, timestep, pooled.dtype());
    if (guidance_) {
      sum = sum + embed(*guidance_, guidance, pooled.dtype());
    }
    return sum + text_(pooled);
  }

 private:
  // The product with 1000 is rounded to the model's dtype, the sinusoids are f32.
  static Tensor embed(const nn::EmbeddingMlp& mlp, Tensor value, DType dtype) {
    const Tensor scaled = ops::convert(ops::convert(value, dtype) * kTrainSteps, DType::F32);
    return mlp(ops::convert(nn::timestep_sinusoids(scaled, kSinusoids), dtype));
  }
  nn::EmbeddingMlp timestep_, text_;
  std::optional<nn::EmbeddingMlp> guidance_;
};

struct Inputs {
  Tensor img, txt, pooled, timestep, guidance, txt_ids, img_ids;
};

Inputs declare_inputs(graph::Graph& g, const models::ShapeMap& shapes, DType dtype,
                      const Config& c) {
  const auto declare = [&](const char* name, std::size_t rank, DType t, Binding binding) {
    return ops::input(g, name, t, models::input_shape(shapes, name, rank), binding);
  };
  if (c.guidance_embeds) {
    models::check_input_names(
        shapes, {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep",
                 "img_ids", "txt_ids", "guidance"});
  } else {
    models::check_input_names(shapes, {"hidden_states", "encoder_hidden_states",
                                       "pooled_projections", "timestep", "img_ids", "txt_ids"});
  }
  Inputs in;
  in.img = declare("hidden_states", 3, dtype, Binding::Step);
  in.txt = declare("encoder_hidden_states", 3, dtype, Binding::Request);
  in.pooled = declare("pooled_projections", 2, dtype, Binding::Request);
  in.timestep = declare("timestep", 1, dtype, Binding::Schedule);
  in.img_ids = declare("img_ids", 2, DType::F32, Binding::Request);
  in.txt_ids = declare("txt_ids", 2, DType::F32, Binding::Request);
  if (c.guidance_embeds) {
    in.guidance = declare("guidance", 1, DType::F32, Binding::Request);
  }
  const Shape img = in.img.shape();
  const auto axes = static_cast<std::int64_t>(c.axes_dims_rope.size());
  models::check_extent("hidden_states", img, 2, c.in_channels, "in_channels");
  models::check_extent("encoder_hidden_states", in.txt.shape(), 0, img[0], "the batch");
  models::check_extent("encoder_hidden_states", in.txt.shape(), 2, c.joint_attention_dim,
                       "joint_attention_dim");
  models::check_extent("pooled_projections", in.pooled.shape(), 0, img[0], "the batch");
  models::check_extent("pooled_projections", in.pooled.shape(), 1, c.pooled_projection_dim,
                       "pooled_projection_dim");
  models::check_extent("timestep", in.timestep.shape(), 0, img[0], "the batch");
  models::check_extent("img_ids", in.img_ids.shape(), 0, img[1], "the image tokens");
  models::check_extent("img_ids", in.img_ids.shape(), 1, axes, "axes_dims_rope");
  models::check_extent("txt_ids", in.txt_ids.shape(), 0, in.txt.dim(1), "the text tokens");
  models::check_extent("txt_ids", in.txt_ids.shape(), 1, axes, "axes_dims_rope");
  return in;
}

}  // namespace

// Modulations, embedders and the last layers are small, and what they get wrong reaches everything.
std::vector<models::QuantRule> Transformer::quant_rules() const {
  return {{"transformer_blocks.*.attn.to_*.weight", "double.attention"},
          {"transformer_blocks.*.attn.add_*_proj.weight", "double.attention"},
          {"transformer_blocks.*.ff.net.*.weight", "double.mlp"},
          {"transformer_blocks.*.ff_context.net.*.weight", "double.mlp"},
          {"single_transformer_blocks.*.attn.to_*.weight", "single.attention"},
          {"single_transformer_blocks.*.proj_mlp.weight", "single.mlp"},
          {"single_transformer_blocks.*.proj_out.weight", "single.mlp"},
          {"transformer_blocks.*.norm1*.linear.weight", "modulation", true},
          {"single_transformer_blocks.*.norm.linear.weight", "modulation", true}};
}

graph::Graph Transformer::trace(const models::ShapeMap& shapes, DType dtype,
                                const spmd::Mesh& mesh) const {
  const Config& c = config_;
  check(c.num_attention_heads % mesh.size(spmd::Axis::Tp) == 0, ErrorCode::InvalidArgument,
        "tensor parallel size {} does not divide num_attention_heads {}", mesh.size(spmd::Axis::Tp),
        c.num_attention_heads);
  graph::Graph g("flux_transformer", mesh);
  const nn::Scope s(g, dtype);
  const Inputs in = declare_inputs(g, shapes, dtype, c);

  const Conditioning conditioning(s / "time_text_embed", c);
  const Tensor temb = conditioning(in.timestep, in.guidance, in.pooled);
  const std::int64_t text = in.txt.dim(1);
  const std::int64_t total = text + in.img.dim(1);
  const ops::RopeTable rope =
      nn::rope_table(ops::concat({in.txt_ids, in.img_ids}, 0), c.axes_dims_rope, kRopeTheta);
  const JointRope joint{nn::slice_rows(rope, 0, text), nn::slice_rows(rope, text, total)};

  Tokens x{nn::Linear(s / "context_embedder", c.joint_attention_dim, c.width())(in.txt),
           nn::Linear(s / "x_embedder", c.in_channels, c.width())(in.img)};
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    x = DoubleBlock(s / "transformer_blocks" / i, c)(x, temb, joint);
  }
  Tensor joined = ops::concat({x.txt, x.img}, 1);
  for (std::int64_t i = 0; i < c.num_single_layers; ++i) {
    joined = SingleBlock(s / "single_transformer_blocks" / i, c)(joined, temb, rope);
  }
  const Tensor img = ops::slice(joined, 1, text, total);

  // AdaLayerNormContinuous: scale comes first here.
  const nn::Linear norm_out(s / "norm_out.linear", c.width(), 2 * c.width());
  const auto [scale, shift] = ops::chunk<2>(ops::unsqueeze(norm_out(ops::silu(temb)), 1), -1);
  const Tensor normed = Modulation{shift, scale, {}}(img);
  ops::output("sample", nn::Linear(s / "proj_out", c.width(), c.out_channels)(normed));
  return g;
}

}  // namespace difflet::flux
