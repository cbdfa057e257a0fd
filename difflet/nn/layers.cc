#include "difflet/nn/layers.h"

#include <cmath>

namespace difflet::nn {

Linear::Linear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias)
    : weight_(s.param("weight", {out, in})), has_bias_(bias == Bias::Yes) {
  if (has_bias_) {
    bias_ = s.param("bias", {out});
  }
}

Tensor Linear::operator()(Tensor x) const {
  return has_bias_ ? ops::linear(x, weight_, bias_) : ops::linear(x, weight_);
}

ColumnLinear::ColumnLinear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias)
    : weight_(s.param("weight", {out, in}, split(0))), has_bias_(bias == Bias::Yes) {
  if (has_bias_) {
    bias_ = s.param("bias", {out}, split(0));
  }
}

Tensor ColumnLinear::operator()(Tensor x) const {
  return has_bias_ ? ops::linear(x, weight_, bias_) : ops::linear(x, weight_);
}

RowLinear::RowLinear(const Scope& s, std::int64_t in, std::int64_t out, Bias bias,
                     std::vector<std::int64_t> segments)
    : weight_(s.param("weight", {out, in}, split(1, std::move(segments)))),
      has_bias_(bias == Bias::Yes) {
  if (has_bias_) {
    bias_ = s.param("bias", {out});
  }
}

ops::Partial RowLinear::operator()(Tensor x) const {
  if (x.graph->mesh().size(spmd::Axis::Tp) == 1) {
    // Alone, the product is the sum, so the bias belongs to it.
    return {.addend = has_bias_ ? ops::linear(x, weight_, bias_) : ops::linear(x, weight_),
            .mesh_axis = spmd::Axis::Tp,
            .bias = {}};
  }
  return {.addend = ops::linear(x, weight_), .mesh_axis = spmd::Axis::Tp, .bias = bias_};
}

LayerNorm::LayerNorm(const Scope& s, std::int64_t width, double eps)
    : weight_(s.param("weight", {width})), bias_(s.param("bias", {width})), eps_(eps) {}

RmsNorm::RmsNorm(const Scope& s, std::int64_t width, double eps)
    : weight_(s.param("weight", {width})), eps_(eps) {}

GroupNorm::GroupNorm(const Scope& s, std::int64_t channels, std::int64_t groups, double eps)
    : weight_(s.param("weight", {channels})),
      bias_(s.param("bias", {channels})),
      groups_(groups),
      eps_(eps) {}

Conv2d::Conv2d(const Scope& s, std::int64_t in, std::int64_t out, std::int64_t kernel,
               std::int64_t pad)
    : weight_(s.param("weight", {out, in, kernel, kernel})),
      bias_(s.param("bias", {out})),
      pad_(pad) {}

Tensor Conv2d::operator()(Tensor x) const {
  return ops::conv2d(x, weight_, bias_, {.stride = 1, .pad = pad_});
}

Embedding::Embedding(const Scope& s, std::int64_t entries, std::int64_t width,
                     std::vector<std::string> aliases)
    : table_(s.param("weight", {entries, width}, {}, std::move(aliases))) {}

EmbeddingMlp::EmbeddingMlp(const Scope& s, std::int64_t in, std::int64_t width)
    : first_(s / "linear_1", in, width), second_(s / "linear_2", width, width) {}

Tensor timestep_sinusoids(Tensor t, std::int64_t width) {
  const std::int64_t half = width / 2;
  std::vector<float> frequencies;
  for (std::int64_t k = 0; k < half; ++k) {
    // In f32, as the original computes them: at t = 1000 the last bit shows.
    const float exponent =
        static_cast<float>(-std::log(10000.0)) * static_cast<float>(k) / static_cast<float>(half);
    frequencies.push_back(std::exp(exponent));
  }
  const Tensor table = ops::constant(*t.graph, HostTensor::from(Shape{1, half}, frequencies));
  const Tensor angles = ops::reshape(t, {-1, 1}) * table;
  return ops::concat({ops::cos(angles), ops::sin(angles)}, -1);
}

ops::RopeTable rope_table(Tensor ids, const std::vector<std::int64_t>& widths, double theta) {
  std::vector<Tensor> angles;
  for (std::size_t axis = 0; axis < widths.size(); ++axis) {
    std::vector<float> frequencies;
    for (std::int64_t k = 0; k < widths[axis] / 2; ++k) {
      const double exponent = -2.0 * static_cast<double>(k) / static_cast<double>(widths[axis]);
      frequencies.push_back(static_cast<float>(std::pow(theta, exponent)));
    }
    const Tensor table =
        ops::constant(*ids.graph, HostTensor::from(Shape{1, widths[axis] / 2}, frequencies));
    const auto column = static_cast<std::int64_t>(axis);
    angles.push_back(ops::slice(ids, 1, column, column + 1) * table);
  }
  const Tensor all = ops::concat(angles, -1);
  return {.cos = ops::cos(all), .sin = ops::sin(all), .pairs = graph::RopePairs::Interleaved};
}

ops::RopeTable slice_rows(const ops::RopeTable& table, std::int64_t start, std::int64_t limit) {
  return {.cos = ops::slice(table.cos, 0, start, limit),
          .sin = ops::slice(table.sin, 0, start, limit),
          .pairs = table.pairs};
}

}  // namespace difflet::nn
