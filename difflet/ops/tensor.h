// The trace handle and the arithmetic of model code. Free functions add nodes to the handle's graph;
// shapes are static, dtypes must agree (convert() is explicit), shapes broadcast as in NumPy.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::ops {

// A value in a traced program. Copied freely; the graph owns everything.
struct Tensor {
  graph::Graph* graph = nullptr;
  graph::NodeId id = 0;

  const graph::Type& type() const { return graph->node(id).type; }
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  // Extent of an axis; negative axes count from the end.
  std::int64_t dim(int axis) const { return shape().dim(axis); }
};
static_assert(std::is_trivially_copyable_v<Tensor>);

// An addend of a sum over the ranks of `mesh_axis` (a row-parallel product): not usable as a value.
// reduce() sums it; `bias` (optional) is added once, after the sum.
struct Partial {
  Tensor addend;
  spmd::Axis mesh_axis = spmd::Axis::Tp;
  Tensor bias{};  // graph == nullptr: none
};

// ---- leaves ----
Tensor input(graph::Graph& g, std::string name, DType dtype, const Shape& shape,
             graph::Binding binding = graph::Binding::Step);
Tensor constant(graph::Graph& g, HostTensor value);
Tensor scalar(graph::Graph& g, DType dtype, double value);
Tensor iota(graph::Graph& g, DType dtype, const Shape& shape, int axis);
Tensor rank_index(graph::Graph& g, spmd::Axis axis);
void output(std::string name, Tensor t);

// ---- elementwise ----
Tensor operator+(Tensor a, Tensor b);
Tensor operator-(Tensor a, Tensor b);
Tensor operator*(Tensor a, Tensor b);
Tensor operator/(Tensor a, Tensor b);
// A scalar takes the tensor's dtype.
Tensor operator+(Tensor a, double b);
Tensor operator+(double a, Tensor b);
Tensor operator-(Tensor a, double b);
Tensor operator*(Tensor a, double b);
Tensor operator*(double a, Tensor b);
Tensor operator/(Tensor a, double b);
Tensor operator-(Tensor a);
Tensor maximum(Tensor a, Tensor b);
Tensor minimum(Tensor a, Tensor b);
Tensor exp(Tensor x);
Tensor log(Tensor x);
Tensor sin(Tensor x);
Tensor cos(Tensor x);
Tensor sqrt(Tensor x);
Tensor rsqrt(Tensor x);
Tensor tanh(Tensor x);
Tensor abs(Tensor x);
Tensor floor(Tensor x);
Tensor less(Tensor a, Tensor b);
Tensor equal(Tensor a, Tensor b);
Tensor select(Tensor condition, Tensor a, Tensor b);
Tensor convert(Tensor x, DType dtype);
Tensor activate(Tensor x, graph::Activation act);
Tensor silu(Tensor x);

// ---- shape ----
Tensor reshape(Tensor x, const Shape& shape);
Tensor reshape(Tensor x, std::initializer_list<std::int64_t> dims);  // one extent may be -1
Tensor transpose(Tensor x, const std::vector<int>& permutation);
Tensor broadcast(Tensor x, const Shape& shape);
Tensor unsqueeze(Tensor x, int axis);
Tensor slice(Tensor x, int axis, std::int64_t start, std::int64_t limit, std::int64_t step = 1);
Tensor concat(const std::vector<Tensor>& parts, int axis);
Tensor pad(Tensor x, int axis, std::int64_t low, std::int64_t high, double value = 0);
std::vector<Tensor> split(Tensor x, const std::vector<std::int64_t>& extents, int axis);
// `N` equal parts, for structured bindings.
template <std::size_t N>
std::array<Tensor, N> chunk(Tensor x, int axis);
Tensor split_heads(Tensor x, std::int64_t heads);  // [B, L, H*d] -> [B, L, H, d]
Tensor merge_heads(Tensor x);                      // [B, L, H, d] -> [B, L, H*d]
Tensor gather(Tensor table, Tensor indices);

// ---- reductions and products ----
// Reduced axes stay with extent 1.
Tensor reduce(graph::ReduceKind kind, Tensor x, const std::vector<int>& axes);
Tensor argmax(Tensor x, int axis);
Tensor matmul(Tensor a, Tensor b);

// ---- composites ----
Tensor linear(Tensor x, Tensor weight);
Tensor linear(Tensor x, Tensor weight, Tensor bias);
struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t pad = 0;  // all four sides, unless given below
  std::int64_t pad_top = -1, pad_bottom = -1, pad_left = -1, pad_right = -1;
  std::int64_t groups = 1;
};
Tensor conv2d(Tensor x, Tensor weight, Tensor bias, const ConvOptions& options);
Tensor layer_norm(Tensor x, double eps);
Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps);
Tensor rms_norm(Tensor x, double eps);
Tensor rms_norm(Tensor x, Tensor weight, double eps);
Tensor group_norm(Tensor x, Tensor weight, Tensor bias, std::int64_t groups, double eps);
// Mean and mean squared deviation of each group of channels: f32 [B, groups, 2].
Tensor group_statistics(Tensor x, std::int64_t groups);
Tensor softmax(Tensor x);
struct AttentionOptions {
  double scale = 0;  // 0: 1 / sqrt(head dim)
  bool causal = false;
  Tensor bias{};                // f32 [1 or B, 1 or H, T, S]; graph == nullptr: none
  Tensor key_min{}, key_max{};  // i32 [B, T]
};
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options = {});
struct RopeTable {
  Tensor cos, sin;  // f32 [L, d/2]
  graph::RopePairs pairs = graph::RopePairs::Interleaved;
};
Tensor rope(Tensor x, const RopeTable& table);  // x [B, L, H, d]
Tensor upsample(Tensor x, std::int64_t factor);

// ---- collectives: emit nothing in a group of one ----
Tensor reduce(Partial p);
// Several at once, so that a backend may merge the messages.
std::pair<Tensor, Tensor> reduce(Partial a, Partial b);
Tensor all_gather(Tensor x, spmd::Axis axis, int dim);
Tensor all_to_all(Tensor x, spmd::Axis axis, int split_dim, int join_dim);

template <std::size_t N>
std::array<Tensor, N> chunk(Tensor x, int axis) {
  std::array<Tensor, N> parts;
  const std::int64_t extent = x.dim(axis) / static_cast<std::int64_t>(N);
  for (std::size_t i = 0; i < N; ++i) {
    const auto start = static_cast<std::int64_t>(i) * extent;
    parts[i] = slice(x, axis, start, i + 1 == N ? x.dim(axis) : start + extent);
  }
  return parts;
}

}  // namespace difflet::ops
