// The two kinds of block of the FLUX transformer (FluxTransformerBlock, FluxSingleTransformerBlock).
#pragma once

#include <array>

#include "difflet/models/flux/config.h"
#include "difflet/nn/layers.h"

namespace difflet::flux {

using ops::Tensor;

// Text and image tokens, [B, T, D] and [B, I, D].
struct Tokens {
  Tensor txt, img;
};

// Rotary tables of the text rows and of the image rows; text comes first in the joint sequence.
struct JointRope {
  ops::RopeTable txt, img;
};

// x -> layer_norm(x) * (1 + scale) + shift, and the gate for what is added back. [B, 1, D] each.
struct Modulation {
  Tensor shift, scale, gate;
  Tensor operator()(Tensor x) const { return (1.0 + scale) * ops::layer_norm(x, 1e-6) + shift; }
};

// Query, key and value of some tokens, [B, L, H/tp, d]; query and key normed and rotated.
struct Qkv {
  Tensor q, k, v;
};

// FluxAttention's projections for one kind of token.
class QkvProjection {
 public:
  struct Names {
    const char *q, *k, *v, *norm_q, *norm_k;
  };
  QkvProjection(const nn::Scope& attn, const Names& names, const Config& c);
  Qkv operator()(Tensor x, const ops::RopeTable& rope) const;

 private:
  std::int64_t heads_;  // on this rank
  nn::ColumnLinear q_, k_, v_;
  nn::RmsNorm norm_q_, norm_k_;
};

// gelu MLP of four times the width: diffusers' FeedForward("gelu-approximate").
class FeedForward {
 public:
  FeedForward(const nn::Scope& s, std::int64_t width);
  ops::Partial operator()(Tensor x) const;

 private:
  nn::ColumnLinear in_;
  nn::RowLinear out_;
};

class DoubleBlock {
 public:
  DoubleBlock(const nn::Scope& s, const Config& c);
  // temb [B, D].
  Tokens operator()(Tokens x, Tensor temb, const JointRope& rope) const;

 private:
  struct Stream {
    nn::Linear modulation;
    QkvProjection qkv;
    nn::RowLinear out;
    FeedForward mlp;
    std::array<Modulation, 2> modulate(Tensor temb) const;
  };
  nn::Scope scope_;
  Stream img_, txt_;
};

class SingleBlock {
 public:
  SingleBlock(const nn::Scope& s, const Config& c);
  // x [B, T + I, D], text first.
  Tensor operator()(Tensor x, Tensor temb, const ops::RopeTable& rope) const;

 private:
  nn::Scope scope_;
  nn::Linear modulation_;
  QkvProjection qkv_;
  nn::ColumnLinear mlp_;
  nn::RowLinear out_;  // of [attention | mlp]
};

}  // namespace difflet::flux
