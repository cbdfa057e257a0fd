#include "difflet/models/autoencoders/kl.h"

#include "difflet/base/error.h"
#include "difflet/nn/layers.h"

namespace difflet::autoencoders {
namespace {

using ops::Tensor;

constexpr double kNormEps = 1e-6;

// Pictures are [B, h, w, C] inside.
class ResnetBlock {
 public:
  ResnetBlock(const nn::Scope& s, std::int64_t in, std::int64_t out, std::int64_t groups)
      : scope_(s),
        norm1_(s / "norm1", in, groups, kNormEps),
        conv1_(s / "conv1", in, out, 3, 1),
        norm2_(s / "norm2", out, groups, kNormEps),
        conv2_(s / "conv2", out, out, 3, 1) {
    if (in != out) {
      shortcut_.emplace(s / "conv_shortcut", in, out, 1, 0);
    }
  }
  Tensor operator()(Tensor x) const {
    const auto entered = scope_.enter();
    const Tensor skip =
        shortcut_ ? (*shortcut_)(x) : x;  // first: the norm may then work in x's memory
    return skip + conv2_(ops::silu(norm2_(conv1_(ops::silu(norm1_(x))))));
  }

 private:
  nn::Scope scope_;
  nn::GroupNorm norm1_;
  nn::Conv2d conv1_;
  nn::GroupNorm norm2_;
  nn::Conv2d conv2_;
  std::optional<nn::Conv2d> shortcut_;
};

// A projection that older checkpoints keep under another name, sometimes as a 1x1 convolution.
class AttentionLinear {
 public:
  AttentionLinear(const nn::Scope& s, std::string_view name, const char* legacy,
                  std::int64_t channels)
      : weight_((s / name).param("weight", {channels, channels}, {},
                                 {(s / legacy).path() + ".weight"})),
        bias_((s / name).param("bias", {channels}, {}, {(s / legacy).path() + ".bias"})) {}
  Tensor operator()(Tensor x) const { return ops::linear(x, weight_, bias_); }

 private:
  Tensor weight_, bias_;
};

// One head as wide as the picture has channels.
class MidAttention {
 public:
  MidAttention(const nn::Scope& s, std::int64_t channels, std::int64_t groups)
      : scope_(s),
        channels_(channels),
        norm_(s / "group_norm", channels, groups, kNormEps),
        q_(s, "to_q", "query", channels),
        k_(s, "to_k", "key", channels),
        v_(s, "to_v", "value", channels),
        out_(s, "to_out.0", "proj_attn", channels) {}
  Tensor operator()(Tensor x) const {
    const auto entered = scope_.enter();
    const Shape picture = x.shape();
    const Tensor n = ops::reshape(norm_(x), {picture[0], picture[1] * picture[2], channels_});
    const auto heads = [](Tensor t) { return ops::split_heads(t, 1); };
    const Tensor attn = ops::merge_heads(ops::attention(heads(q_(n)), heads(k_(n)), heads(v_(n))));
    return x + ops::reshape(out_(attn), picture);
  }

 private:
  nn::Scope scope_;
  std::int64_t channels_;
  nn::GroupNorm norm_;
  AttentionLinear q_, k_, v_, out_;
};

Tensor mid_block(const nn::Scope& s, const KlConfig& c, std::int64_t channels, Tensor x) {
  x = ResnetBlock(s / "resnets" / 0, channels, channels, c.norm_num_groups)(x);
  if (c.mid_block_add_attention) {
    x = MidAttention(s / "attentions" / 0, channels, c.norm_num_groups)(x);
  }
  return ResnetBlock(s / "resnets" / 1, channels, channels, c.norm_num_groups)(x);
}

Tensor decode(const nn::Scope& s, const KlConfig& c, Tensor x) {
  const auto levels = static_cast<std::int64_t>(c.block_out_channels.size());
  std::int64_t channels = c.block_out_channels.back();
  x = nn::Conv2d(s / "conv_in", c.latent_channels, channels, 3, 1)(x);
  x = mid_block(s / "mid_block", c, channels, x);
  for (std::int64_t i = 0; i < levels; ++i) {
    const nn::Scope block = s / "up_blocks" / i;
    const std::int64_t out = c.block_out_channels[static_cast<std::size_t>(levels - 1 - i)];
    for (std::int64_t j = 0; j <= c.layers_per_block; ++j) {
      x = ResnetBlock(block / "resnets" / j, j == 0 ? channels : out, out, c.norm_num_groups)(x);
    }
    if (i + 1 < levels) {
      x = nn::Conv2d(block / "upsamplers" / 0 / "conv", out, out, 3, 1)(ops::upsample(x, 2));
    }
    channels = out;
  }
  x = ops::silu(nn::GroupNorm(s / "conv_norm_out", channels, c.norm_num_groups, kNormEps)(x));
  return nn::Conv2d(s / "conv_out", channels, c.out_channels, 3, 1)(x);
}

}  // namespace

KlConfig read_kl_config(models::ConfigReader& r) {
  KlConfig c;
  c.out_channels = r.integer("out_channels", c.out_channels, {1, 4096});
  c.latent_channels = r.integer("latent_channels", c.latent_channels, {1, 4096});
  c.block_out_channels = r.integers("block_out_channels", c.block_out_channels, {1, 65536});
  if (c.block_out_channels.size() > 8) {
    r.refuse("block_out_channels", "at most 8 levels are");
  }
  c.layers_per_block = r.integer("layers_per_block", c.layers_per_block, {1, 100});
  c.norm_num_groups = r.integer("norm_num_groups", c.norm_num_groups, {1, 65536});
  c.sample_size = r.integer("sample_size", c.sample_size, {1, 65536});
  c.scaling_factor = r.number("scaling_factor", c.scaling_factor);
  c.shift_factor = r.number("shift_factor", c.shift_factor);
  c.use_post_quant_conv = r.flag("use_post_quant_conv", c.use_post_quant_conv);
  c.mid_block_add_attention = r.flag("mid_block_add_attention", c.mid_block_add_attention);
  for (const std::string& type : r.texts("up_block_types", {"UpDecoderBlock2D"})) {
    if (type != "UpDecoderBlock2D") {
      r.refuse("up_block_types", "only UpDecoderBlock2D is");
    }
  }
  if (r.text("act_fn", "silu") != "silu") {
    r.refuse("act_fn", "only silu is");
  }
  if (r.has("latents_mean") || r.has("latents_std")) {
    if (!r.texts("latents_mean", {}).empty() || !r.texts("latents_std", {}).empty()) {
      r.refuse("latents_mean", "the pipeline uses scaling_factor and shift_factor");
    }
  }
  for (const std::int64_t channels : c.block_out_channels) {
    check(channels % c.norm_num_groups == 0, ErrorCode::InvalidArgument,
          "{}: norm_num_groups {} does not divide block_out_channels {}", r.origin(),
          c.norm_num_groups, channels);
  }
  check(c.scaling_factor != 0, ErrorCode::InvalidArgument, "{}: scaling_factor is 0", r.origin());
  r.ignore({"in_channels", "down_block_types", "force_upcast", "use_quant_conv"});
  return c;
}

bool KlDecoder::ignores(std::string_view tensor) const {
  return tensor.starts_with("encoder.") || tensor.starts_with("quant_conv.");
}

graph::Graph KlDecoder::trace(const models::ShapeMap& inputs, DType dtype,
                              const spmd::Mesh& mesh) const {
  const KlConfig& c = config_;
  models::check_input_names(inputs, {"z"});
  const Shape shape = models::input_shape(inputs, "z", 4);
  models::check_extent("z", shape, 1, c.latent_channels, "latent_channels");
  graph::Graph g("kl_decoder", mesh);
  const nn::Scope s(g, dtype);
  Tensor x =
      ops::transpose(ops::input(g, "z", dtype, shape, graph::Binding::Request), {0, 2, 3, 1});
  if (c.use_post_quant_conv) {
    x = nn::Conv2d(s / "post_quant_conv", c.latent_channels, c.latent_channels, 1, 0)(x);
  }
  ops::output("sample", ops::transpose(decode(s / "decoder", c, x), {0, 3, 1, 2}));
  return g;
}

}  // namespace difflet::autoencoders
