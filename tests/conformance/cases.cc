#include "tests/conformance/cases.h"

#include <fmt/format.h>

#include "difflet/base/error.h"
#include "difflet/graph/builder.h"
#include "difflet/graph/enum_names.h"

namespace difflet::conformance {

using graph::Activation;
using graph::Op;

namespace {

Operand x(const Shape& shape) { return {.shape = shape}; }
Operand range(const Shape& shape, double low, double high) {
  return {.shape = shape, .low = low, .high = high};
}
// Small enough that sums over a few hundred products stay near 1.
Operand weight(const Shape& shape) {
  return {.shape = shape, .low = -0.25, .high = 0.25, .role = Role::Param};
}
Operand gain(const Shape& shape) {
  return {.shape = shape, .low = 0.5, .high = 1.5, .role = Role::Param};
}
Operand f32(const Shape& shape, double low = -1, double high = 1) {
  return {.shape = shape, .kind = Kind::F32, .low = low, .high = high};
}
Operand i32(const Shape& shape, double low, double high) {
  return {.shape = shape, .kind = Kind::I32, .low = low, .high = high};
}
Operand bytes(const Shape& shape) {  // weights from -127 to 127
  return {.shape = shape, .kind = Kind::I8, .low = -127, .high = 128, .role = Role::Param};
}
// Factors of rows of bytes() that keep their sums near 1, and of columns of x.
Operand scale(std::int64_t rows) {
  return {.shape = {rows}, .kind = Kind::F32, .low = 0.0005, .high = 0.002, .role = Role::Param};
}
Operand smooth(std::int64_t columns) {
  return {.shape = {columns}, .kind = Kind::F32, .low = 0.1, .high = 3, .role = Role::Param};
}
Operand boolean(const Shape& shape) {
  return {.shape = shape, .kind = Kind::Bool, .low = 0, .high = 2};
}

class List {
 public:
  void add(std::string_view detail, Op op, std::vector<Operand> operands) {
    cases_.push_back(
        {fmt::format("{} {}", graph::op_name(op), detail), std::move(op), std::move(operands)});
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void add_leaves(List& list) {
  list.add("of a step", graph::Input{"x", DType::F32, Shape{3, 5}}, {});
  list.add("of odd width", graph::Param{}, {weight({3, 17})});
  list.add("scalar", graph::Constant{graph::scalar_tensor(DType::F32, 0.1)}, {});
  list.add("of a mesh of one", graph::RankIndex{}, {});
  list.add("f32 along the last axis", graph::Iota{DType::F32, Shape{2, 5}, 1}, {});
  list.add("i32 along the first axis", graph::Iota{DType::I32, Shape{7, 3}, 0}, {});
}

void add_elementwise(List& list) {
  using graph::BinaryKind;
  using graph::UnaryKind;
  for (const UnaryKind kind : {UnaryKind::Neg, UnaryKind::Abs, UnaryKind::Sin, UnaryKind::Cos,
                               UnaryKind::Tanh, UnaryKind::Erf, UnaryKind::Floor}) {
    list.add(graph::enum_name(kind), graph::Unary{kind}, {range({3, 37}, -6, 6)});
  }
  list.add("exp", graph::Unary{UnaryKind::Exp}, {range({3, 37}, -6, 6)});
  list.add("exp of large values", graph::Unary{UnaryKind::Exp}, {range({3, 37}, 20, 88)});
  list.add("exp that underflows", graph::Unary{UnaryKind::Exp}, {range({37}, -300, -80)});
  list.add("sin of large values", graph::Unary{UnaryKind::Sin}, {range({37}, -1000, 1000)});
  list.add("sigmoid", graph::Unary{UnaryKind::Sigmoid}, {range({3, 37}, -40, 40)});
  for (const UnaryKind kind : {UnaryKind::Log, UnaryKind::Sqrt, UnaryKind::Rsqrt}) {
    list.add(graph::enum_name(kind), graph::Unary{kind}, {range({3, 37}, 0.01, 50)});
  }
  list.add("neg of i32", graph::Unary{UnaryKind::Neg}, {i32({11}, -9, 9)});
  for (const BinaryKind kind : {BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Div,
                                BinaryKind::Max, BinaryKind::Min}) {
    list.add(graph::enum_name(kind), graph::Binary{kind}, {x({2, 33}), range({2, 33}, 0.5, 4)});
  }
  list.add("pow", graph::Binary{BinaryKind::Pow}, {range({2, 9}, 0.1, 4), range({9}, -2, 2)});
  list.add("row to matrix", graph::Binary{}, {x({5, 19}), x({19})});
  list.add("column to matrix", graph::Binary{BinaryKind::Mul}, {x({5, 1}), x({5, 19})});
  list.add("outer", graph::Binary{BinaryKind::Sub}, {x({1, 7, 1}), x({3, 1, 5})});
  list.add("scalar to tensor", graph::Binary{BinaryKind::Mul}, {x({}), x({2, 3, 4})});
  list.add("div of i32", graph::Binary{BinaryKind::Div}, {i32({23}, -40, 40), i32({23}, 1, 9)});
  using graph::CompareKind;
  for (const CompareKind kind : {CompareKind::Eq, CompareKind::Ne, CompareKind::Lt, CompareKind::Le,
                                 CompareKind::Gt, CompareKind::Ge}) {
    list.add(graph::enum_name(kind), graph::Compare{kind}, {i32({4, 9}, 0, 3), i32({9}, 0, 3)});
  }
  list.add("lt of floats", graph::Compare{CompareKind::Lt}, {x({4, 9}), x({4, 1})});
  list.add("broadcasting", graph::Select{}, {boolean({4, 1}), x({4, 9}), x({9})});
  list.add("to f32", graph::Convert{DType::F32}, {x({3, 21})});
  list.add("to bf16", graph::Convert{DType::BF16}, {x({3, 21})});
  list.add("to i32", graph::Convert{DType::I32}, {range({3, 21}, -50, 50)});
  list.add("i32 to f32", graph::Convert{DType::F32}, {i32({5}, -9, 9)});
}

void add_shapes(List& list) {
  list.add("merging axes", graph::Reshape{Shape{6, 5}}, {x({2, 3, 5})});
  list.add("of a matrix", graph::Transpose{{1, 0}}, {x({13, 7})});
  list.add("of heads", graph::Transpose{{0, 2, 1, 3}}, {x({2, 5, 3, 8})});
  list.add("of four axes", graph::Transpose{{3, 1, 0, 2}}, {x({2, 3, 4, 5})});
  list.add("new and inner axes", graph::Broadcast{Shape{2, 3, 5}}, {x({3, 1})});
  list.add("inner axis", graph::Slice{1, 2, 9, 1}, {x({3, 11, 2})});
  list.add("last axis by steps", graph::Slice{1, 1, 10, 3}, {x({4, 11})});
  list.add("first axis", graph::Slice{0, 1, 3, 1}, {x({4, 5})});
  list.add("inside", graph::DynamicSlice{0, 2}, {x({6, 3}), i32({}, 3, 4)});
  list.add("clamped above", graph::DynamicSlice{1, 4}, {x({2, 6}), i32({}, 100, 101)});
  list.add("clamped below", graph::DynamicSlice{0, 2}, {x({6}), i32({}, -9, -8)});
  list.add("of tokens", graph::Concat{1}, {x({2, 3, 5}), x({2, 1, 5}), x({2, 4, 5})});
  list.add("of channels", graph::Concat{1}, {x({3, 5}), x({3, 2})});
  list.add("both sides", graph::Pad{1, 2, 1, 0.5}, {x({3, 4, 5})});
  list.add("low of the last axis", graph::Pad{1, 3, 0, 0}, {x({3, 4})});
  list.add("rows", graph::Gather{}, {weight({9, 11}), i32({2, 5}, 0, 9)});
  list.add("scalars", graph::Gather{}, {x({9}), i32({4}, 0, 9)});
}

void add_products(List& list) {
  using graph::ReduceKind;
  for (const ReduceKind kind :
       {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::Mean}) {
    list.add(fmt::format("{} of the last axis", graph::enum_name(kind)), graph::Reduce{kind, {2}},
             {x({2, 3, 37})});
    list.add(fmt::format("{} of outer axes", graph::enum_name(kind)), graph::Reduce{kind, {0, 2}},
             {x({3, 4, 5})});
  }
  list.add("of everything", graph::Reduce{ReduceKind::Sum, {0, 1}}, {x({7, 9})});
  list.add("of the last axis", graph::ArgMax{1}, {x({5, 33})});
  list.add("with ties", graph::ArgMax{0}, {i32({16, 3}, 0, 4)});
  list.add("5x19 x 19x7", graph::MatMul{}, {x({5, 19}), x({19, 7})});
  list.add("one row", graph::MatMul{}, {x({1, 64}), x({64, 33})});
  list.add("broadcast batch", graph::MatMul{}, {x({3, 1, 4, 9}), x({2, 9, 5})});
  list.add(
      "3x3",
      graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1, .bias = true},
      {x({2, 7, 5, 3}), weight({6, 3, 3, 3}), weight({6})});
  list.add("1x1", graph::Conv2d{}, {x({1, 4, 3, 8}), weight({5, 8, 1, 1})});
  list.add("stride 2, padded below and right",
           graph::Conv2d{.stride = 2, .pad_bottom = 1, .pad_right = 1, .bias = true},
           {x({1, 8, 6, 4}), weight({4, 4, 3, 3}), weight({4})});
  list.add("two groups", graph::Conv2d{.pad_top = 1, .pad_left = 1, .groups = 2},
           {x({1, 5, 5, 6}), weight({4, 3, 2, 2})});
  list.add(
      "32 channels",
      graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1, .bias = true},
      {x({1, 9, 9, 32}), weight({32, 32, 3, 3}), weight({32})});
}

// Over groups of one; more ranks are the business of tests/spmd.
void add_collectives(List& list) {
  list.add("alone", graph::AllReduce{}, {x({3, 5})});
  list.add("alone", graph::AllGather{}, {x({3, 5})});
  list.add("alone", graph::ReduceScatter{}, {x({3, 5})});
  list.add("alone", graph::AllToAll{.join_axis = 1}, {x({3, 5})});
  list.add("alone", graph::RingShift{}, {x({3, 5})});
}

// Each case with products of floats, of bytes, and of bytes with factors of x.
void add_quantised(List& list, std::string_view detail, graph::Linear op, const Operand& x,
                   std::int64_t n, const std::vector<Operand>& epilogue) {
  using graph::WeightQuant;
  const std::int64_t k = x.shape.dim(-1);
  for (const auto& [quant, smoothed] :
       {std::pair(WeightQuant::W8A16, false), std::pair(WeightQuant::W8A8, false),
        std::pair(WeightQuant::W8A8, true)}) {
    op.quant = quant;
    op.smooth = smoothed;
    std::vector<Operand> operands{x, bytes({n, k}), scale(n)};
    if (smoothed) {
      operands.push_back(smooth(k));
    }
    operands.insert(operands.end(), epilogue.begin(), epilogue.end());
    list.add(fmt::format("{}{}, {}", graph::enum_name(quant), smoothed ? " smooth" : "", detail),
             op, operands);
  }
}

void add_quantised_linears(List& list) {
  for (const Shape& shape :
       {Shape{67}, Shape{1, 32}, Shape{9, 67}, Shape{64, 130}, Shape{2, 5, 40}, Shape{3, 1, 257}}) {
    add_quantised(list, fmt::format("{} x 48 columns", shape.str()), {}, x(shape), 48, {});
  }
  add_quantised(list, "rows of zeros", {.bias = true}, range({3, 20}, 0, 0), 33, {weight({33})});
  add_quantised(list, "large rows", {}, range({3, 20}, -3e4, 1e4), 7, {});
  for (const Activation act : {Activation::GeluTanh, Activation::Silu}) {
    add_quantised(list, fmt::format("bias, {}", graph::enum_name(act)), {.bias = true, .act = act},
                  x({9, 64}), 37, {weight({37})});
  }
  add_quantised(list, "gate and residual", {.bias = true, .mul = true, .residual = true},
                x({2, 7, 64}), 32, {weight({32}), x({2, 1, 32}), x({2, 7, 32})});
  add_quantised(list, "gate of every element", {.mul = true}, x({5, 33}), 24, {x({5, 24})});
  list.add("w8a16, weights that are computed", graph::Linear{.quant = graph::WeightQuant::W8A16},
           {x({3, 16}),
            {.shape = {8, 16}, .kind = Kind::I8, .low = -127, .high = 128},
            f32({8}, 0.001, 0.002)});
}

void add_linears(List& list) {
  for (const std::int64_t rows : {1, 3, 17, 64}) {
    for (const std::int64_t k : {32, 67}) {
      list.add(fmt::format("[{0}, {1}] x [48, {1}]", rows, k), graph::Linear{},
               {x({rows, k}), weight({48, k})});
    }
  }
  list.add("bias", graph::Linear{.bias = true}, {x({2, 5, 40}), weight({33, 40}), weight({33})});
  for (const Activation act : {Activation::GeluTanh, Activation::GeluErf, Activation::QuickGelu,
                               Activation::Silu, Activation::Relu}) {
    list.add(fmt::format("bias, {}", graph::enum_name(act)),
             graph::Linear{.bias = true, .act = act}, {x({9, 64}), weight({37, 64}), weight({37})});
  }
  list.add("gate and residual", graph::Linear{.bias = true, .mul = true, .residual = true},
           {x({2, 7, 64}), weight({32, 64}), weight({32}), x({2, 1, 32}), x({2, 7, 32})});
  list.add("gate of every element", graph::Linear{.mul = true},
           {x({5, 32}), weight({24, 32}), x({5, 24})});
  list.add("activation and residual", graph::Linear{.act = Activation::Silu, .residual = true},
           {x({5, 32}), weight({24, 32}), x({5, 24})});
  list.add("weights that are computed", graph::Linear{}, {x({3, 16}), range({8, 16}, -0.25, 0.25)});
  list.add("f32 weights", graph::Linear{.bias = true},
           {x({3, 16}),
            {.shape = {8, 16}, .kind = Kind::F32, .low = -0.25, .high = 0.25, .role = Role::Param},
            {.shape = {8}, .kind = Kind::F32, .role = Role::Param}});
}

void add_norms(List& list) {
  for (const Activation act : {Activation::GeluTanh, Activation::GeluErf, Activation::QuickGelu,
                               Activation::Silu, Activation::Relu}) {
    list.add(graph::enum_name(act), graph::Activate{act}, {range({3, 41}, -8, 8)});
  }
  list.add("plain", graph::LayerNorm{}, {x({2, 3, 35})});
  list.add("off centre", graph::LayerNorm{.eps = 1e-5}, {range({3, 64}, 30, 31)});
  list.add("affine", graph::LayerNorm{.affine = true}, {x({5, 64}), gain({64}), weight({64})});
  list.add("modulated", graph::LayerNorm{.modulated = true},
           {x({2, 3, 64}), x({2, 1, 64}), x({2, 1, 64})});
  list.add("modulated by vectors", graph::LayerNorm{.modulated = true},
           {x({2, 3, 19}), x({19}), x({19})});
  list.add("affine, modulated", graph::LayerNorm{.affine = true, .modulated = true},
           {x({3, 19}), gain({19}), weight({19}), x({19}), x({3, 1})});
  list.add("weighted", graph::RmsNorm{}, {x({2, 3, 35}), gain({35})});
  list.add("plain", graph::RmsNorm{.weight = false}, {x({5, 128})});
  list.add("of small values", graph::RmsNorm{.eps = 1e-6},
           {range({4, 32}, -1e-3, 1e-3), gain({32})});
  list.add("4 groups", graph::GroupNorm{.groups = 4}, {x({2, 3, 5, 16}), gain({16}), weight({16})});
  list.add("one group, silu", graph::GroupNorm{.act = Activation::Silu},
           {x({1, 4, 4, 6}), gain({6}), weight({6})});
  list.add("groups of one channel", graph::GroupNorm{.groups = 6},
           {x({1, 9, 6}), gain({6}), weight({6})});
  list.add("given statistics",
           graph::GroupNorm{.groups = 2, .act = Activation::Silu, .statistics = true},
           {x({2, 3, 5, 16}), gain({16}), weight({16}), f32({2, 2, 4}, 0.5, 1.5)});
  list.add("4 groups", graph::GroupStatistics{.groups = 4}, {x({2, 3, 5, 16})});
  list.add("off centre", graph::GroupStatistics{.groups = 2}, {range({1, 40, 31, 4}, 30, 31)});
  list.add("rows", graph::Softmax{}, {range({2, 3, 37}, -30, 30)});
  list.add("one element", graph::Softmax{}, {x({3, 1})});
}

void add_attention(List& list) {
  using graph::Attention;
  const auto qkv = [](std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t h,
                      std::int64_t d) {
    return std::vector{x({b, t, h, d}), x({b, s, h, d}), x({b, s, h, d})};
  };
  const auto with = [](std::vector<Operand> operands, const std::vector<Operand>& more) {
    operands.insert(operands.end(), more.begin(), more.end());
    return operands;
  };
  list.add("self", Attention{.scale = 0.25}, qkv(2, 13, 13, 3, 16));
  list.add("cross", Attention{.scale = 0.125}, qkv(1, 5, 77, 2, 64));
  list.add("long", Attention{.scale = 0.1}, qkv(1, 130, 130, 1, 128));
  list.add("one key", Attention{}, qkv(1, 3, 1, 2, 8));
  list.add("causal", Attention{.scale = 0.25, .causal = true}, qkv(1, 9, 9, 2, 16));
  list.add("causal with earlier keys", Attention{.scale = 0.25, .causal = true},
           qkv(1, 4, 11, 2, 16));
  list.add("shared key heads", Attention{.scale = 0.25},
           {x({2, 6, 4, 16}), x({2, 7, 2, 16}), x({2, 7, 2, 16})});
  list.add("wider values", Attention{.scale = 0.25},
           {x({1, 6, 2, 16}), x({1, 7, 2, 16}), x({1, 7, 2, 24})});
  list.add("odd width", Attention{.scale = 0.25}, qkv(1, 5, 6, 2, 20));
  list.add("bias", Attention{.bias = true}, with(qkv(2, 7, 7, 2, 8), {f32({1, 2, 7, 7}, -4, 4)}));
  list.add("bias of batches", Attention{.bias = true},
           with(qkv(2, 5, 9, 2, 8), {f32({2, 1, 5, 9}, -4, 4)}));
  list.add("bounds", Attention{.bounds = true},
           with(qkv(2, 9, 20, 2, 8), {i32({2, 9}, 0, 9), i32({2, 9}, 10, 21)}));
  list.add("bounds without a key", Attention{.bounds = true},
           with(qkv(1, 6, 8, 1, 8), {i32({1, 6}, 2, 7), i32({1, 6}, 2, 7)}));
  list.add("bias and causal", Attention{.causal = true, .bias = true},
           with(qkv(1, 6, 6, 2, 8), {f32({1, 1, 6, 6}, -4, 4)}));
}

void add_ropes(List& list) {
  using graph::RopePairs;
  for (const RopePairs pairs : {RopePairs::Interleaved, RopePairs::Half}) {
    const std::string_view name = graph::enum_name(pairs);
    list.add(name, graph::Rope{.pairs = pairs}, {x({2, 5, 3, 16}), f32({5, 8}), f32({5, 8})});
    list.add(fmt::format("{}, normed", name), graph::Rope{.pairs = pairs, .norm = true},
             {x({1, 7, 2, 128}), f32({7, 64}), f32({7, 64}), gain({128})});
    list.add(fmt::format("{}, narrow", name), graph::Rope{.pairs = pairs},
             {x({1, 3, 2, 6}), f32({3, 3}), f32({3, 3})});
  }
  list.add("by 2", graph::Upsample{}, {x({2, 3, 5, 7})});
  list.add("by 3", graph::Upsample{3}, {x({1, 2, 2, 4})});
}

}  // namespace

std::vector<Case> cases() {
  List list;
  add_leaves(list);
  add_elementwise(list);
  add_shapes(list);
  add_products(list);
  add_collectives(list);
  add_linears(list);
  add_quantised_linears(list);
  add_norms(list);
  add_attention(list);
  add_ropes(list);
  return list.take();
}

}  // namespace difflet::conformance
