// Layers with weights. Each declares its parameters in the constructor, under the names that the
// checkpoints use, with their placement over the ranks.
#pragma once

#include <optional>
#include <vector>

#include "difflet/nn/scope.h"

namespace difflet::nn {

enum class Bias { Yes, No };

// Replicated: y = x . weight^T + bias, weight [out, in].
class Linear {
 public:
  Linear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias = Bias::Yes);
  Tensor operator()(Tensor x) const;

 private:
  Tensor weight_, bias_;
  bool has_bias_;
};

// Output features split over the tensor-parallel ranks: [.., in] -> [.., out / tp].
class ColumnLinear {
 public:
  ColumnLinear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias = Bias::Yes);
  Tensor operator()(Tensor x) const;

 private:
  Tensor weight_, bias_;
  bool has_bias_;
};

// Input features split; the product is an addend that reduce() sums over the ranks. `segments` are the
// extents of concatenated inputs that are split each on its own.
class RowLinear {
 public:
  RowLinear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias = Bias::Yes,
            std::vector<std::int64_t> segments = {});
  ops::Partial operator()(Tensor x) const;

 private:
  Tensor weight_, bias_;
  bool has_bias_;
};

class LayerNorm {
 public:
  LayerNorm(const Scope& s, std::int64_t width, double eps);
  Tensor operator()(Tensor x) const { return ops::layer_norm(x, weight_, bias_, eps_); }

 private:
  Tensor weight_, bias_;
  double eps_;
};

class RmsNorm {
 public:
  RmsNorm(const Scope& s, std::int64_t width, double eps);
  Tensor operator()(Tensor x) const { return ops::rms_norm(x, weight_, eps_); }

 private:
  Tensor weight_;
  double eps_;
};

class GroupNorm {
 public:
  GroupNorm(const Scope& s, std::int64_t channels, std::int64_t groups, double eps);
  Tensor operator()(Tensor x) const { return ops::group_norm(x, weight_, bias_, groups_, eps_); }

 private:
  Tensor weight_, bias_;
  std::int64_t groups_;
  double eps_;
};

// Channels last; weight [out, in, k, k] as checkpoints keep it.
class Conv2d {
 public:
  Conv2d(const Scope& s, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t pad);
  Tensor operator()(Tensor x) const;

 private:
  Tensor weight_, bias_;
  std::int64_t pad_;
};

// Rows of a table [entries, width].
class Embedding {
 public:
  Embedding(const Scope& s, std::int64_t entries, std::int64_t width,
            std::vector<std::string> aliases = {});
  Tensor operator()(Tensor ids) const { return ops::gather(table_, ids); }
  Tensor table() const { return table_; }

 private:
  Tensor table_;
};

// linear_2(silu(linear_1(x))): diffusers' TimestepEmbedding and PixArtAlphaTextProjection("silu").
class EmbeddingMlp {
 public:
  EmbeddingMlp(const Scope& s, std::int64_t in, std::int64_t width);
  Tensor operator()(Tensor x) const { return second_(ops::silu(first_(x))); }

 private:
  Linear first_, second_;
};

// Sinusoids of t [B] f32 -> [B, width] f32: cosines, then sines (diffusers' Timesteps with
// flip_sin_to_cos and no frequency shift).
Tensor timestep_sinusoids(Tensor t, std::int64_t width);

// Rotary tables of position ids [L, axes] f32: axis i fills widths[i] channels, frequencies
// theta^(-2k/width), axes side by side.
ops::RopeTable rope_table(Tensor ids, const std::vector<std::int64_t>& widths, double theta);
ops::RopeTable slice_rows(const ops::RopeTable& table, std::int64_t start, std::int64_t limit);

}  // namespace difflet::nn
