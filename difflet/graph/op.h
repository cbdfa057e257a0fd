// The operations of the graph: plain structs of attributes in one closed variant. Shape inference,
// printing, parsing, decomposition, the reference evaluator and every backend visit the variant, so
// a forgotten case does not compile. Each op lists its attributes once, in visit_fields().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "difflet/spmd/mesh.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::graph {

// When the value of an input is known: once a request, once for the whole schedule, or every step.
enum class Binding : std::uint8_t { Request, Schedule, Step };

enum class UnaryKind : std::uint8_t {
  Neg,
  Abs,
  Exp,
  Log,
  Sin,
  Cos,
  Sqrt,
  Rsqrt,
  Tanh,
  Erf,
  Sigmoid,
  Floor,
};
enum class BinaryKind : std::uint8_t { Add, Sub, Mul, Div, Max, Min, Pow };
enum class CompareKind : std::uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
enum class ReduceKind : std::uint8_t { Sum, Max, Min, Mean };
enum class Activation : std::uint8_t { None, GeluTanh, GeluErf, QuickGelu, Silu, Relu };
// How the weights of a Linear are held: as its operand says; int8 with one scale a row, multiplied as
// floats (W8A16); int8 with rows of x quantised as they come, products in integers (W8A8).
enum class WeightQuant : std::uint8_t { None, W8A16, W8A8 };
// Which channels of a head rotate together: (2k, 2k+1), or (k, k + d/2).
enum class RopePairs : std::uint8_t { Interleaved, Half };

using Dims = std::vector<std::int64_t>;

// ---- leaves --------------------------------------------------------------------------------------

struct Input {
  static constexpr std::string_view kName = "input";
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  Binding binding = Binding::Step;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("name", s.name), v("dtype", s.dtype), v("shape", s.shape), v("binding", s.binding);
  }
};
// Graph::params()[index], as its shard on this rank.
struct Param {
  static constexpr std::string_view kName = "param";
  std::int64_t index = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("index", s.index);
  }
};
struct Constant {
  static constexpr std::string_view kName = "constant";
  HostTensor value;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("value", s.value);
  }
};
// The rank's coordinate along a mesh axis: an i32 scalar, live at run time.
struct RankIndex {
  static constexpr std::string_view kName = "rank_index";
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis);
  }
};
// 0, 1, 2 ... along `axis`.
struct Iota {
  static constexpr std::string_view kName = "iota";
  DType dtype = DType::F32;
  Shape shape;
  std::int64_t axis = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("dtype", s.dtype), v("shape", s.shape), v("axis", s.axis);
  }
};

// ---- elementwise ---------------------------------------------------------------------------------

struct Unary {
  static constexpr std::string_view kName = "unary";
  UnaryKind kind = UnaryKind::Neg;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("kind", s.kind);
  }
};
// Operands of one dtype; shapes broadcast as in NumPy.
struct Binary {
  static constexpr std::string_view kName = "binary";
  BinaryKind kind = BinaryKind::Add;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("kind", s.kind);
  }
};
struct Compare {
  static constexpr std::string_view kName = "compare";
  CompareKind kind = CompareKind::Eq;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("kind", s.kind);
  }
};
// select(condition, a, b); shapes broadcast.
struct Select {
  static constexpr std::string_view kName = "select";
  template <typename S, typename V>
  static void visit_fields(S&, V&&) {}
};
struct Convert {
  static constexpr std::string_view kName = "convert";
  DType dtype = DType::F32;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("dtype", s.dtype);
  }
};

// ---- shape ---------------------------------------------------------------------------------------

struct Reshape {
  static constexpr std::string_view kName = "reshape";
  Shape shape;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("shape", s.shape);
  }
};
// Axis i of the result is axis permutation[i] of the operand.
struct Transpose {
  static constexpr std::string_view kName = "transpose";
  Dims permutation;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("permutation", s.permutation);
  }
};
struct Broadcast {
  static constexpr std::string_view kName = "broadcast";
  Shape shape;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("shape", s.shape);
  }
};
// Elements start, start + step, ... below `limit` of `axis`.
struct Slice {
  static constexpr std::string_view kName = "slice";
  std::int64_t axis = 0, start = 0, limit = 0, step = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("axis", s.axis), v("start", s.start), v("limit", s.limit), v("step", s.step);
  }
};
// (x, start: i32 scalar): `extent` elements of `axis` from `start`, which is clamped into range.
struct DynamicSlice {
  static constexpr std::string_view kName = "dynamic_slice";
  std::int64_t axis = 0, extent = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("axis", s.axis), v("extent", s.extent);
  }
};
struct Concat {
  static constexpr std::string_view kName = "concat";
  std::int64_t axis = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("axis", s.axis);
  }
};
struct Pad {
  static constexpr std::string_view kName = "pad";
  std::int64_t axis = 0, low = 0, high = 0;
  double value = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("axis", s.axis), v("low", s.low), v("high", s.high), v("value", s.value);
  }
};
// (table [V, D...], indices i32 [...]) -> [..., D...]; an index outside the table is an error.
struct Gather {
  static constexpr std::string_view kName = "gather";
  template <typename S, typename V>
  static void visit_fields(S&, V&&) {}
};

// ---- reductions and products ---------------------------------------------------------------------

// Reduced axes stay with extent 1.
struct Reduce {
  static constexpr std::string_view kName = "reduce";
  ReduceKind kind = ReduceKind::Sum;
  Dims axes;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("kind", s.kind), v("axes", s.axes);
  }
};
// First index of the largest element along `axis`, i32; the axis goes away.
struct ArgMax {
  static constexpr std::string_view kName = "argmax";
  std::int64_t axis = 0;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("axis", s.axis);
  }
};
// [..., M, K] x [..., K, N] -> [..., M, N]; leading axes broadcast; f32 accumulation.
struct MatMul {
  static constexpr std::string_view kName = "matmul";
  template <typename S, typename V>
  static void visit_fields(S&, V&&) {}
};
// (x [B, h, w, C], weight [O, C/groups, kh, kw], bias [O]?) -> [B, h', w', O], zero padding.
struct Conv2d {
  static constexpr std::string_view kName = "conv2d";
  std::int64_t stride = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  std::int64_t groups = 1;
  bool bias = false;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("stride", s.stride), v("pad_top", s.pad_top), v("pad_bottom", s.pad_bottom);
    v("pad_left", s.pad_left), v("pad_right", s.pad_right), v("groups", s.groups),
        v("bias", s.bias);
  }
};

// ---- collectives over one mesh axis --------------------------------------------------------------

struct AllReduce {
  static constexpr std::string_view kName = "all_reduce";
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  ReduceKind kind = ReduceKind::Sum;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis), v("kind", s.kind);
  }
};
// The group's operands joined along `axis`, in rank order.
struct AllGather {
  static constexpr std::string_view kName = "all_gather";
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  std::int64_t axis = 0, group = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis), v("axis", s.axis), v("group", s.group);
  }
};
// The group's sum; this rank keeps its part of `axis`.
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  std::int64_t axis = 0, group = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis), v("axis", s.axis), v("group", s.group);
  }
};
// Splits `split_axis` into one part a rank, sends part i to rank i, joins what arrives on `join_axis`.
struct AllToAll {
  static constexpr std::string_view kName = "all_to_all";
  spmd::Axis mesh_axis = spmd::Axis::Cp;
  std::int64_t split_axis = 0, join_axis = 0, group = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis), v("split_axis", s.split_axis), v("join_axis", s.join_axis);
    v("group", s.group);
  }
};
// Every rank sends its operand to the rank `shift` places on, around the group.
struct RingShift {
  static constexpr std::string_view kName = "ring_shift";
  spmd::Axis mesh_axis = spmd::Axis::Cp;
  std::int64_t shift = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("mesh_axis", s.mesh_axis), v("shift", s.shift);
  }
};

// ---- composites: one decomposition each (graph/decompose.h); a backend may claim them -------------

// (x [..., K], weight [N, K], scale f32 [N]?, smooth f32 [K]?, bias [N]?, mul [..., N]?,
// residual [..., N]?): residual + mul * act(x . weight^T + bias); mul broadcasts as in NumPy.
// With `quant` the weight is i8 and the product is
//   w8a16: (x . weight^T) * scale
//   w8a8:  (q . weight^T) * s * scale; a = x * smooth, s = max |a| / 127 of each row,
//          q = a / s to the nearest integer, ties to even (0 where s is 0)
struct Linear {
  static constexpr std::string_view kName = "linear";
  bool bias = false;
  Activation act = Activation::None;
  bool mul = false;
  bool residual = false;
  WeightQuant quant = WeightQuant::None;
  bool smooth = false;  // w8a8 only
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("bias", s.bias), v("act", s.act), v("mul", s.mul), v("residual", s.residual);
    v("quant", s.quant), v("smooth", s.smooth);
  }
  // Index of the first operand after those of the product: the bias, if there is one.
  std::size_t epilogue() const {
    return 2U + (quant != WeightQuant::None ? 1U : 0U) + (smooth ? 1U : 0U);
  }
};
struct Activate {
  static constexpr std::string_view kName = "activate";
  Activation act = Activation::Silu;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("act", s.act);
  }
};
// (x [..., D], weight [D]?, bias [D]?, scale?, shift?): over the last axis;
// affine: weight and bias; modulated: result * (1 + scale) + shift, broadcasting.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  double eps = 1e-6;
  bool affine = false;
  bool modulated = false;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("eps", s.eps), v("affine", s.affine), v("modulated", s.modulated);
  }
};
// (x [..., D], weight [D]?)
struct RmsNorm {
  static constexpr std::string_view kName = "rms_norm";
  double eps = 1e-6;
  bool weight = true;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("eps", s.eps), v("weight", s.weight);
  }
};
// (x [B, ..., C], weight [C], bias [C], statistics f32 [B, groups, 4]?): channels last, then `act`.
// Given statistics are those that GroupStatistics takes, of a whole whose part x is.
struct GroupNorm {
  static constexpr std::string_view kName = "group_norm";
  std::int64_t groups = 1;
  double eps = 1e-6;
  Activation act = Activation::None;
  bool statistics = false;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("groups", s.groups), v("eps", s.eps), v("act", s.act), v("statistics", s.statistics);
  }
};
// x [B, ..., C] -> f32 [B, groups, 4]: mean, mean squared deviation, and what each has beyond its f32.
struct GroupStatistics {
  static constexpr std::string_view kName = "group_statistics";
  std::int64_t groups = 1;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("groups", s.groups);
  }
};
// Over the last axis.
struct Softmax {
  static constexpr std::string_view kName = "softmax";
  template <typename S, typename V>
  static void visit_fields(S&, V&&) {}
};
// (q [B, T, H, D], k [B, S, G, D], v [B, S, G, E], bias f32 [., ., T, S]?, key_min i32 [B, T]?,
// key_max i32 [B, T]?) -> [B, T, H, E]; H is a multiple of G. Keys in [key_min, key_max) are seen.
// A query that sees no key gives zeros.
struct Attention {
  static constexpr std::string_view kName = "attention";
  double scale = 1;
  bool causal = false;
  bool bias = false;
  bool bounds = false;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("scale", s.scale), v("causal", s.causal), v("bias", s.bias), v("bounds", s.bounds);
  }
};
// (x [B, L, H, D], cos f32 [L, D/2], sin f32 [L, D/2], norm weight [D]?): optional RMS norm over D,
// then the rotation, in f32.
struct Rope {
  static constexpr std::string_view kName = "rope";
  RopePairs pairs = RopePairs::Interleaved;
  bool norm = false;
  double eps = 1e-6;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("pairs", s.pairs), v("norm", s.norm), v("eps", s.eps);
  }
};
// [B, h, w, C] -> [B, h * factor, w * factor, C], nearest.
struct Upsample {
  static constexpr std::string_view kName = "upsample";
  std::int64_t factor = 2;
  template <typename S, typename V>
  static void visit_fields(S& s, V&& v) {
    v("factor", s.factor);
  }
};

using Op = std::variant<Input, Param, Constant, RankIndex, Iota, Unary, Binary, Compare, Select,
                        Convert, Reshape, Transpose, Broadcast, Slice, DynamicSlice, Concat, Pad,
                        Gather, Reduce, ArgMax, MatMul, Conv2d, AllReduce, AllGather, ReduceScatter,
                        AllToAll, RingShift, Linear, Activate, LayerNorm, RmsNorm, GroupNorm,
                        GroupStatistics, Softmax, Attention, Rope, Upsample>;

std::string_view op_name(const Op& op) noexcept;
// True for ops that graph/decompose.h expands.
bool is_composite(const Op& op) noexcept;

// `std::visit(overloaded{...}, op)` without a default branch.
template <typename... F>
struct overloaded : F... {
  using F::operator()...;
};
template <typename... F>
overloaded(F...) -> overloaded<F...>;

}  // namespace difflet::graph
