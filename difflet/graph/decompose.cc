#include "difflet/graph/decompose.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "difflet/base/error.h"
#include "difflet/graph/builder.h"

namespace difflet::graph {
namespace {

// Expands one op; every overload returns f32 (or, for ops that only move data, the operand's dtype).
class Expansion {
 public:
  Expansion(Graph& to, std::span<const NodeId> inputs) : b_(to), in_(inputs) {}

  // x with a row axis; for w8a8 in whole numbers, with the scale [..., M, 1].
  struct ProductRows {
    NodeId x = 0, scale = 0;
  };
  ProductRows product_rows(const Linear& op);
  NodeId operator()(const Linear& op);
  NodeId operator()(const Activate& op) { return activation(f32(0), op.act); }
  NodeId operator()(const LayerNorm& op);
  NodeId operator()(const RmsNorm& op);
  NodeId operator()(const GroupNorm& op);
  NodeId operator()(const GroupStatistics& op);
  NodeId operator()(const Softmax& op);
  NodeId operator()(const Attention& op);
  NodeId operator()(const Rope& op);
  NodeId operator()(const Upsample& op);
  template <typename Primitive>
  NodeId operator()(const Primitive&) {
    fail(ErrorCode::Internal, "decompose: {} is a primitive", Primitive::kName);
  }

 private:
  NodeId f32(std::size_t i) { return b_.convert(in_[i], DType::F32); }
  NodeId activation(NodeId x, Activation act);
  NodeId gelu_tanh(NodeId x);
  // x * rsqrt(mean(x^2) + eps) over `axes`.
  NodeId normalize(NodeId x, const Dims& axes, double eps);
  NodeId center(NodeId x, const Dims& axes) {
    return b_.sub(x, b_.reduce(ReduceKind::Mean, x, axes));
  }
  // x [B, ..., C] as f32 [B, pixels, groups, channels of a group].
  NodeId grouped(std::int64_t groups);
  // Scores [B, H, T, S] with -inf where the key is not seen.
  NodeId mask_causal(NodeId scores);
  NodeId mask_bounds(NodeId scores, NodeId key_min, NodeId key_max);
  std::int64_t last_axis(NodeId x) { return static_cast<std::int64_t>(b_.shape(x).rank()) - 1; }

  Builder b_;
  std::span<const NodeId> in_;
};

NodeId Expansion::gelu_tanh(NodeId x) {
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  const NodeId cube = b_.mul(b_.mul(x, x), x);
  const NodeId inner = b_.add(x, b_.mul(b_.f32(0.044715), cube));
  const double scale = std::sqrt(2.0 / std::numbers::pi);
  const NodeId t = b_.unary(UnaryKind::Tanh, b_.mul(b_.f32(scale), inner));
  return b_.mul(b_.mul(b_.f32(0.5), x), b_.add(b_.f32(1), t));
}

NodeId Expansion::activation(NodeId x, Activation act) {
  switch (act) {
    case Activation::None:
      return x;
    case Activation::GeluTanh:
      return gelu_tanh(x);
    case Activation::GeluErf: {
      const NodeId e = b_.unary(UnaryKind::Erf, b_.mul(x, b_.f32(std::numbers::sqrt2 / 2)));
      return b_.mul(b_.mul(b_.f32(0.5), x), b_.add(b_.f32(1), e));
    }
    case Activation::QuickGelu:
      return b_.mul(x, b_.unary(UnaryKind::Sigmoid, b_.mul(b_.f32(1.702), x)));
    case Activation::Silu:
      return b_.mul(x, b_.unary(UnaryKind::Sigmoid, x));
    case Activation::Relu:
      return b_.binary(BinaryKind::Max, x, b_.f32(0));
  }
  fail(ErrorCode::Internal, "decompose: unknown activation {}", static_cast<int>(act));
}

NodeId Expansion::normalize(NodeId x, const Dims& axes, double eps) {
  const NodeId mean = b_.reduce(ReduceKind::Mean, b_.mul(x, x), axes);
  return b_.mul(x, b_.unary(UnaryKind::Rsqrt, b_.add(mean, b_.f32(eps))));
}

Expansion::ProductRows Expansion::product_rows(const Linear& op) {
  NodeId x = f32(0);
  if (b_.shape(x).rank() == 1) {
    x = b_.reshape(x, Shape{1, b_.shape(x)[0]});
  }
  if (op.quant != WeightQuant::W8A8) {
    return {.x = x};
  }
  if (op.smooth) {
    x = b_.mul(x, f32(3));
  }
  constexpr double kLargest = 127;
  const Dims axes{last_axis(x)};
  const NodeId most = b_.reduce(ReduceKind::Max, b_.unary(UnaryKind::Abs, x), axes);
  const NodeId scale = b_.mul(most, b_.f32(1 / kLargest));
  // A row of zeros stays one, whatever it is divided by.
  const NodeId divisor = b_.binary(BinaryKind::Max, most, b_.f32(1e-30));
  const NodeId ratio = b_.mul(x, b_.binary(BinaryKind::Div, b_.f32(kLargest), divisor));
  // At this size the last place of an f32 is one: adding it rounds to the nearest, ties to even.
  const NodeId shift = b_.f32(0x1.8p23);
  return {.x = b_.sub(b_.add(ratio, shift), shift), .scale = scale};
}

NodeId Expansion::operator()(const Linear& op) {
  const Shape shape = b_.shape(in_[0]);
  const NodeId weight = b_.transpose(f32(1), {1, 0});
  const ProductRows rows = product_rows(op);
  NodeId y = b_.matmul(rows.x, weight);
  if (op.quant == WeightQuant::W8A8) {
    y = b_.mul(y, rows.scale);
  }
  if (op.quant != WeightQuant::None) {
    y = b_.mul(y, f32(2));
  }
  if (shape.rank() == 1) {
    y = b_.reshape(y, Shape{b_.shape(y)[1]});
  }
  std::size_t i = op.epilogue();
  if (op.bias) {
    y = b_.add(y, f32(i++));
  }
  y = activation(y, op.act);
  if (op.mul) {
    y = b_.mul(f32(i++), y);
  }
  if (op.residual) {
    y = b_.add(f32(i), y);
  }
  return y;
}

NodeId Expansion::operator()(const LayerNorm& op) {
  const NodeId x = f32(0);
  const Dims axes{last_axis(x)};
  NodeId y = normalize(center(x, axes), axes, op.eps);
  std::size_t i = 1;
  if (op.affine) {
    y = b_.add(b_.mul(y, f32(i)), f32(i + 1));
    i += 2;
  }
  if (op.modulated) {
    y = b_.add(b_.mul(y, b_.add(b_.f32(1), f32(i))), f32(i + 1));
  }
  return y;
}

NodeId Expansion::operator()(const RmsNorm& op) {
  const NodeId x = f32(0);
  const NodeId y = normalize(x, {last_axis(x)}, op.eps);
  return op.weight ? b_.mul(y, f32(1)) : y;
}

NodeId Expansion::grouped(std::int64_t groups) {
  const NodeId x = f32(0);
  const Shape shape = b_.shape(x);
  const std::int64_t channels = shape[shape.rank() - 1];
  const std::int64_t pixels = shape.elements() / shape[0] / channels;
  return b_.reshape(x, Shape{shape[0], pixels, groups, channels / groups});
}

NodeId Expansion::operator()(const GroupNorm& op) {
  const Dims axes{1, 3};
  const Shape shape = b_.shape(in_[0]);
  const NodeId x = grouped(op.groups);
  NodeId y = 0;
  if (op.statistics) {
    const Shape each{shape[0], 1, op.groups, 1};
    const auto sum = [&](std::int64_t at) {
      const NodeId both =
          b_.add(b_.slice(in_[3], 2, at, at + 1), b_.slice(in_[3], 2, at + 2, at + 3));
      return b_.reshape(both, each);
    };
    const NodeId mean = sum(0);
    const NodeId variance = sum(1);
    y = b_.mul(b_.sub(x, mean), b_.unary(UnaryKind::Rsqrt, b_.add(variance, b_.f32(op.eps))));
  } else {
    y = normalize(center(x, axes), axes, op.eps);
  }
  return activation(b_.add(b_.mul(b_.reshape(y, shape), f32(1)), f32(2)), op.act);
}

NodeId Expansion::operator()(const GroupStatistics& op) {
  const Dims axes{1, 3};
  const NodeId x = grouped(op.groups);
  const NodeId mean = b_.reduce(ReduceKind::Mean, x, axes);
  const NodeId off = b_.sub(x, mean);
  const NodeId variance = b_.reduce(ReduceKind::Mean, b_.mul(off, off), axes);
  const Shape each{b_.shape(x)[0], op.groups, 1};
  // In f32 nothing is left above it.
  const NodeId rest = b_.broadcast(b_.f32(0), Shape{each[0], op.groups, 2});
  return b_.concat({b_.reshape(mean, each), b_.reshape(variance, each), rest}, 2);
}

NodeId Expansion::operator()(const Softmax&) {
  const NodeId x = f32(0);
  const Dims axes{last_axis(x)};
  const NodeId e = b_.unary(UnaryKind::Exp, b_.sub(x, b_.reduce(ReduceKind::Max, x, axes)));
  return b_.div(e, b_.reduce(ReduceKind::Sum, e, axes));
}

NodeId Expansion::mask_causal(NodeId scores) {
  // Query t sees key s when s <= t + (S - T): the last query sees the last key.
  const std::int64_t queries = b_.shape(scores)[2];
  const std::int64_t keys = b_.shape(scores)[3];
  const NodeId last = b_.add(b_.iota(DType::I32, Shape{queries, 1}, 0),
                             b_.scalar(DType::I32, static_cast<double>(keys - queries)));
  const NodeId key = b_.iota(DType::I32, Shape{1, keys}, 1);
  return b_.select(b_.compare(CompareKind::Le, key, last), scores,
                   b_.f32(-std::numeric_limits<double>::infinity()));
}

NodeId Expansion::mask_bounds(NodeId scores, NodeId key_min, NodeId key_max) {
  const Shape rows{b_.shape(key_min)[0], 1, b_.shape(key_min)[1], 1};
  const NodeId key = b_.iota(DType::I32, Shape{1, b_.shape(scores)[3]}, 1);
  const NodeId none = b_.f32(-std::numeric_limits<double>::infinity());
  const NodeId above = b_.compare(CompareKind::Ge, key, b_.reshape(key_min, rows));
  const NodeId below = b_.compare(CompareKind::Lt, key, b_.reshape(key_max, rows));
  return b_.select(above, b_.select(below, scores, none), none);
}

NodeId Expansion::operator()(const Attention& op) {
  const Shape q = b_.shape(in_[0]);  // [B, T, H, D]
  const Shape k = b_.shape(in_[1]);  // [B, S, G, D]
  const Shape v = b_.shape(in_[2]);  // [B, S, G, E]
  const std::int64_t share = q[2] / k[2];
  // Query heads g * share ... belong to key head g.
  const NodeId queries =
      b_.reshape(b_.transpose(f32(0), {0, 2, 1, 3}), Shape{q[0], k[2], share, q[1], q[3]});
  const NodeId keys =
      b_.reshape(b_.transpose(f32(1), {0, 2, 3, 1}), Shape{k[0], k[2], 1, k[3], k[1]});
  const NodeId values =
      b_.reshape(b_.transpose(f32(2), {0, 2, 1, 3}), Shape{v[0], v[2], 1, v[1], v[3]});
  const Shape grouped{q[0], k[2], share, q[1], k[1]};
  NodeId scores = b_.reshape(b_.matmul(queries, keys), Shape{q[0], q[2], q[1], k[1]});
  scores = b_.mul(scores, b_.f32(op.scale));
  std::size_t i = 3;
  if (op.bias) {
    scores = b_.add(scores, f32(i++));
  }
  if (op.bounds) {
    scores = mask_bounds(scores, in_[i], in_[i + 1]);
  }
  if (op.causal) {
    scores = mask_causal(scores);
  }
  // A row without a key has the maximum -inf: subtracting 0 instead leaves weights of exp(-inf) = 0.
  const NodeId zero = b_.f32(0);
  const NodeId top = b_.reduce(ReduceKind::Max, scores, {3});
  const NodeId none = b_.f32(-std::numeric_limits<double>::infinity());
  const NodeId finite = b_.select(b_.compare(CompareKind::Gt, top, none), top, zero);
  const NodeId weights = b_.unary(UnaryKind::Exp, b_.sub(scores, finite));
  const NodeId sum = b_.reduce(ReduceKind::Sum, weights, {3});
  const NodeId divisor = b_.select(b_.compare(CompareKind::Gt, sum, zero), sum, b_.f32(1));
  const NodeId mixed =
      b_.reshape(b_.matmul(b_.reshape(weights, grouped), values), Shape{q[0], q[2], q[1], v[3]});
  return b_.transpose(b_.div(mixed, divisor), {0, 2, 1, 3});
}

NodeId Expansion::operator()(const Rope& op) {
  NodeId x = f32(0);
  const Shape shape = b_.shape(x);  // [B, L, H, D]
  if (op.norm) {
    x = b_.mul(normalize(x, {3}, op.eps), f32(3));
  }
  const std::int64_t half = shape[3] / 2;
  // Both pairings become [B, L, H, ...] with the two channels of a pair in `axis`.
  const bool interleaved = op.pairs == RopePairs::Interleaved;
  const std::size_t axis = interleaved ? 4 : 3;
  const Shape pairs = interleaved ? Shape{shape[0], shape[1], shape[2], half, 2}
                                  : Shape{shape[0], shape[1], shape[2], 2, half};
  const Shape table = interleaved ? Shape{1, shape[1], 1, half, 1} : Shape{1, shape[1], 1, 1, half};
  x = b_.reshape(x, pairs);
  const NodeId cos = b_.reshape(in_[1], table);
  const NodeId sin = b_.reshape(in_[2], table);
  const NodeId a = b_.slice(x, axis, 0, 1);
  const NodeId c = b_.slice(x, axis, 1, 2);
  const NodeId first = b_.sub(b_.mul(a, cos), b_.mul(c, sin));
  const NodeId second = b_.add(b_.mul(a, sin), b_.mul(c, cos));
  return b_.reshape(b_.concat({first, second}, axis), shape);
}

NodeId Expansion::operator()(const Upsample& op) {
  const Shape s = b_.shape(in_[0]);  // [B, h, w, C]
  const NodeId x = b_.reshape(in_[0], Shape{s[0], s[1], 1, s[2], 1, s[3]});
  const NodeId wide = b_.broadcast(x, Shape{s[0], s[1], op.factor, s[2], op.factor, s[3]});
  return b_.reshape(wide, Shape{s[0], s[1] * op.factor, s[2] * op.factor, s[3]});
}

}  // namespace

NodeId decompose(Graph& to, const Op& op, std::span<const NodeId> inputs) {
  require(!inputs.empty() || !is_composite(op), "decompose: a composite has operands");
  Expansion expansion(to, inputs);
  const NodeId result = std::visit(expansion, op);
  const bool statistics = std::holds_alternative<GroupStatistics>(op);
  return Builder(to).convert(result, statistics ? DType::F32 : to.node(inputs[0]).type.dtype);
}

}  // namespace difflet::graph
