#include "difflet/graph/inference.h"

namespace difflet::graph {

void Inference::weight(std::size_t i, std::string_view name, const Shape& shape) const {
  expect(in_[i].shape == shape, "{} must have shape {}, not {}", name, shape.str(), in_[i].str());
  expect(in_[i].dtype == in_[0].dtype || in_[i].dtype == DType::F32, "{} must be {} or f32, not {}",
         name, dtype_name(in_[0].dtype), in_[i].str());
}

void Inference::broadcasts(std::size_t i, std::string_view name, const Shape& shape) const {
  expect(in_[i].dtype == in_[0].dtype, "{} must be {}, not {}", name, dtype_name(in_[0].dtype),
         in_[i].str());
  expect(fits(in_[i].shape, shape), "{} {} does not broadcast to {}", name, in_[i].str(),
         shape.str());
}

Type Inference::operator()(const Linear& op) const {
  arity(op.epilogue() + (op.bias ? 1U : 0U) + (op.mul ? 1U : 0U) + (op.residual ? 1U : 0U));
  const Type& x = floating(0);
  const Shape& w = in_[1].shape;
  expect(w.rank() == 2, "weight must be [N, K], not {}", in_[1].str());
  expect(x.shape.rank() >= 1, "x must have an axis, not {}", x.str());
  const std::size_t last = x.shape.rank() - 1;
  expect(x.shape[last] == w[1], "x {} does not fit weight {} (last axis {}, weight axis 1 {})",
         x.str(), in_[1].str(), x.shape[last], w[1]);
  const bool quantised = op.quant != WeightQuant::None;
  expect(!op.smooth || op.quant == WeightQuant::W8A8, "only the x of w8a8 is smoothed");
  if (quantised) {
    expect(in_[1].dtype == DType::I8, "weight must be i8, not {}", in_[1].str());
    expect(in_[2] == Type{DType::F32, Shape{w[0]}}, "scale must be f32[{}], not {}", w[0],
           in_[2].str());
  } else {
    weight(1, "weight", w);
  }
  if (op.smooth) {
    expect(in_[3] == Type{DType::F32, Shape{w[1]}}, "smooth must be f32[{}], not {}", w[1],
           in_[3].str());
  }
  const Type result{x.dtype, x.shape.with(last, w[0])};
  std::size_t i = op.epilogue();
  if (op.bias) {
    weight(i++, "bias", Shape{w[0]});
  }
  if (op.mul) {
    broadcasts(i++, "mul", result.shape);
  }
  if (op.residual) {
    expect(in_[i] == result, "residual must be {}, not {}", result.str(), in_[i].str());
  }
  return result;
}

Type Inference::operator()(const Activate&) const {
  arity(1);
  return floating(0);
}

Type Inference::operator()(const LayerNorm& op) const {
  arity(1U + (op.affine ? 2U : 0U) + (op.modulated ? 2U : 0U));
  const Type& x = floating(0);
  expect(x.shape.rank() >= 1, "x must have an axis, not {}", x.str());
  const Shape width{x.shape[x.shape.rank() - 1]};
  std::size_t i = 1;
  if (op.affine) {
    weight(i++, "weight", width);
    weight(i++, "bias", width);
  }
  if (op.modulated) {
    broadcasts(i++, "scale", x.shape);
    broadcasts(i++, "shift", x.shape);
  }
  return x;
}

Type Inference::operator()(const RmsNorm& op) const {
  arity(op.weight ? 2 : 1);
  const Type& x = floating(0);
  expect(x.shape.rank() >= 1, "x must have an axis, not {}", x.str());
  if (op.weight) {
    weight(1, "weight", Shape{x.shape[x.shape.rank() - 1]});
  }
  return x;
}

Type Inference::group_statistics(std::int64_t groups) const {
  const Type& x = floating(0);
  expect(x.shape.rank() >= 2, "x must be [B, ..., C], not {}", x.str());
  const std::int64_t channels = x.shape[x.shape.rank() - 1];
  expect(groups >= 1 && channels % groups == 0, "{} channels do not divide into {} groups",
         channels, groups);
  return {DType::F32, Shape{x.shape[0], groups, 4}};
}

Type Inference::operator()(const GroupNorm& op) const {
  arity(op.statistics ? 4 : 3);
  const Type statistics = group_statistics(op.groups);
  const Type& x = in_[0];
  const Shape channels{x.shape[x.shape.rank() - 1]};
  weight(1, "weight", channels);
  weight(2, "bias", channels);
  expect(!op.statistics || in_.back() == statistics, "statistics must be {}, not {}",
         statistics.str(), in_.back().str());
  return x;
}

Type Inference::operator()(const GroupStatistics& op) const {
  arity(1);
  return group_statistics(op.groups);
}

Type Inference::operator()(const Softmax&) const {
  arity(1);
  expect(in_[0].shape.rank() >= 1, "x must have an axis, not {}", in_[0].str());
  return floating(0);
}

Type Inference::operator()(const Attention& op) const {
  arity(3U + (op.bias ? 1U : 0U) + (op.bounds ? 2U : 0U));
  const Type& q = floating(0);
  for (std::size_t i = 0; i < 3; ++i) {
    expect(in_[i].shape.rank() == 4 && in_[i].dtype == q.dtype,
           "q, k and v must be [B, L, H, D] of one dtype");
  }
  const Shape& k = in_[1].shape;
  const Shape& v = in_[2].shape;
  expect(k[0] == q.shape[0] && v[0] == q.shape[0], "q, k and v differ in the batch");
  expect(k[1] == v[1] && k[2] == v[2], "k and v differ in length or heads");
  expect(k[3] == q.shape[3], "q and k differ in the head width");
  expect(q.shape[2] % k[2] == 0, "{} query heads are no multiple of {} key heads", q.shape[2],
         k[2]);
  std::size_t i = 3;
  if (op.bias) {
    const Type& bias = in_[i++];
    expect(bias.dtype == DType::F32 && bias.shape.rank() == 4 &&
               (bias.shape[0] == 1 || bias.shape[0] == q.shape[0]) &&
               (bias.shape[1] == 1 || bias.shape[1] == q.shape[2]) && bias.shape[2] == q.shape[1] &&
               bias.shape[3] == k[1],
           "bias must be f32 [1 or {}, 1 or {}, {}, {}], not {}", q.shape[0], q.shape[2],
           q.shape[1], k[1], bias.str());
  }
  if (op.bounds) {
    const Type bounds{DType::I32, Shape{q.shape[0], q.shape[1]}};
    expect(in_[i] == bounds && in_[i + 1] == bounds, "key_min and key_max must be {}",
           bounds.str());
  }
  return {q.dtype, q.shape.with(3, v[3])};
}

Type Inference::operator()(const Rope& op) const {
  arity(op.norm ? 4 : 3);
  const Type& x = floating(0);
  expect(x.shape.rank() == 4 && x.shape[3] % 2 == 0, "x must be [B, L, H, D] with even D, not {}",
         x.str());
  const Type table{DType::F32, Shape{x.shape[1], x.shape[3] / 2}};
  expect(in_[1] == table && in_[2] == table, "cos and sin must be {} for x {}", table.str(),
         x.str());
  if (op.norm) {
    weight(3, "norm weight", Shape{x.shape[3]});
  }
  return x;
}

Type Inference::operator()(const Upsample& op) const {
  arity(1);
  const Type& x = in_[0];
  expect(x.shape.rank() == 4, "x must be [B, h, w, C], not {}", x.str());
  expect(op.factor >= 1, "factor {} must be positive", op.factor);
  return {x.dtype,
          x.shape.with(1, times(x.shape[1], op.factor)).with(2, times(x.shape[2], op.factor))};
}

}  // namespace difflet::graph
