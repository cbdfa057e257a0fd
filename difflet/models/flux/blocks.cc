#include "difflet/models/flux/blocks.h"

namespace difflet::flux {
namespace {

using ops::chunk;
using ops::concat;
using ops::reduce;

constexpr QkvProjection::Names kImageNames{"to_q", "to_k", "to_v", "norm_q", "norm_k"};
constexpr QkvProjection::Names kTextNames{"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q",
                                          "norm_added_k"};
constexpr double kNormEps = 1e-6;

// [B, N * D] -> N rows of [B, 1, D], from one product with silu(temb).
template <std::size_t N>
std::array<Tensor, N> modulation_rows(const nn::Linear& linear, Tensor temb) {
  return chunk<N>(ops::unsqueeze(linear(ops::silu(temb)), 1), -1);
}

}  // namespace

QkvProjection::QkvProjection(const nn::Scope& attn, const Names& names, const Config& c)
    : heads_(c.num_attention_heads / attn.ranks(spmd::Axis::Tp)),
      q_(attn / names.q, c.width(), c.width()),
      k_(attn / names.k, c.width(), c.width()),
      v_(attn / names.v, c.width(), c.width()),
      norm_q_(attn / names.norm_q, c.attention_head_dim, kNormEps),
      norm_k_(attn / names.norm_k, c.attention_head_dim, kNormEps) {}

Qkv QkvProjection::operator()(Tensor x, const ops::RopeTable& rope) const {
  const auto heads = [&](Tensor t) { return ops::split_heads(t, heads_); };
  return {ops::rope(norm_q_(heads(q_(x))), rope), ops::rope(norm_k_(heads(k_(x))), rope),
          heads(v_(x))};
}

FeedForward::FeedForward(const nn::Scope& s, std::int64_t width)
    : in_(s / "net.0.proj", width, 4 * width), out_(s / "net.2", 4 * width, width) {}

ops::Partial FeedForward::operator()(Tensor x) const {
  return out_(ops::activate(in_(x), graph::Activation::GeluTanh));
}

DoubleBlock::DoubleBlock(const nn::Scope& s, const Config& c)
    : scope_(s),
      img_{.modulation{s / "norm1.linear", c.width(), 6 * c.width()},
           .qkv{s / "attn", kImageNames, c},
           .out{s / "attn.to_out.0", c.width(), c.width()},
           .mlp{s / "ff", c.width()}},
      txt_{.modulation{s / "norm1_context.linear", c.width(), 6 * c.width()},
           .qkv{s / "attn", kTextNames, c},
           .out{s / "attn.to_add_out", c.width(), c.width()},
           .mlp{s / "ff_context", c.width()}} {}

std::array<Modulation, 2> DoubleBlock::Stream::modulate(Tensor temb) const {
  const auto m = modulation_rows<6>(modulation, temb);
  return {Modulation{m[0], m[1], m[2]}, Modulation{m[3], m[4], m[5]}};
}

Tokens DoubleBlock::operator()(Tokens x, Tensor temb, const JointRope& rope) const {
  const auto entered = scope_.enter();
  const auto [img_pre, img_post] = img_.modulate(temb);
  const auto [txt_pre, txt_post] = txt_.modulate(temb);

  const Qkv i = img_.qkv(img_pre(x.img), rope.img);
  const Qkv t = txt_.qkv(txt_pre(x.txt), rope.txt);
  const Tensor attn = ops::merge_heads(
      ops::attention(concat({t.q, i.q}, 1), concat({t.k, i.k}, 1), concat({t.v, i.v}, 1)));
  const auto parts = ops::split(attn, {x.txt.dim(1), x.img.dim(1)}, 1);

  const auto [txt_attn, img_attn] = reduce(txt_.out(parts[0]), img_.out(parts[1]));
  x = {x.txt + txt_pre.gate * txt_attn, x.img + img_pre.gate * img_attn};

  const auto [txt_ff, img_ff] = reduce(txt_.mlp(txt_post(x.txt)), img_.mlp(img_post(x.img)));
  return {x.txt + txt_post.gate * txt_ff, x.img + img_post.gate * img_ff};
}

SingleBlock::SingleBlock(const nn::Scope& s, const Config& c)
    : scope_(s),
      modulation_(s / "norm.linear", c.width(), 3 * c.width()),
      qkv_(s / "attn", kImageNames, c),
      mlp_(s / "proj_mlp", c.width(), 4 * c.width()),
      out_(s / "proj_out", 5 * c.width(), c.width(), nn::Bias::Yes, {c.width(), 4 * c.width()}) {}

Tensor SingleBlock::operator()(Tensor x, Tensor temb, const ops::RopeTable& rope) const {
  const auto entered = scope_.enter();
  const auto [shift, scale, gate] = modulation_rows<3>(modulation_, temb);
  const Tensor n = Modulation{shift, scale, gate}(x);
  const Qkv h = qkv_(n, rope);
  const Tensor attn = ops::merge_heads(ops::attention(h.q, h.k, h.v));
  const Tensor mlp = ops::activate(mlp_(n), graph::Activation::GeluTanh);
  return x + gate * reduce(out_(concat({attn, mlp}, -1)));
}

}  // namespace difflet::flux
