// Programs over N ranks of the reference backend equal the program of one rank.

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/base/error.h"
#include "difflet/ops/tensor.h"
#include "difflet/tensor/compare.h"

namespace difflet {
namespace {

using graph::Graph;
using graph::ParamDecl;
using ops::Tensor;
using spmd::Axis;

constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kHeads = 4;

HostTensor noise(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& v : values) {
    v = static_cast<float>(random() % 2001) / 2000.0F - 0.5F;
  }
  return HostTensor::from(shape, std::span<const float>(values));
}

// Whole parameters, the same for every mesh: a parameter's values follow from its name.
class NoiseWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const ParamDecl& param) const override {
    unsigned seed = 7;
    for (const char c : param.name) {
      seed = seed * 31 + static_cast<unsigned char>(c);
    }
    return noise(param.shape, seed);
  }
};

struct Declare {
  Graph& graph;
  Tensor operator()(std::string name, const Shape& shape,
                    const graph::Placement& placement = {}) const {
    return {&graph, graph.add_param({std::move(name), {}, DType::F32, shape, placement})};
  }
};

graph::Placement split(std::int64_t dim, graph::Dims segments = {}) {
  return {.split = true, .dim = dim, .mesh_axis = Axis::Tp, .segments = std::move(segments)};
}

// x + mlp(x): a column-parallel product, an activation, a row-parallel product.
void trace_mlp(Graph& g) {
  const Declare param{g};
  const Tensor x = ops::input(g, "x", DType::F32, Shape{2, 5, kWidth});
  const Tensor inner =
      ops::activate(ops::linear(x, param("up.weight", Shape{4 * kWidth, kWidth}, split(0)),
                                param("up.bias", Shape{4 * kWidth}, split(0))),
                    graph::Activation::GeluTanh);
  const ops::Partial product{
      .addend = ops::linear(inner, param("down.weight", Shape{kWidth, 4 * kWidth}, split(1))),
      .bias = param("down.bias", Shape{kWidth})};
  ops::output("y", x + ops::reduce(product));
}

// Heads split over the ranks; one fused weight of three segments.
void trace_attention(Graph& g) {
  const Declare param{g};
  const std::int64_t ranks = g.mesh().size(Axis::Tp);
  const Tensor x = ops::input(g, "x", DType::F32, Shape{2, 5, kWidth});
  const Tensor weight =
      param("qkv.weight", Shape{3 * kWidth, kWidth}, split(0, {kWidth, kWidth, kWidth}));
  const auto [q, k, v] = ops::chunk<3>(ops::linear(x, weight), -1);
  const auto heads = [&](Tensor t) { return ops::split_heads(t, kHeads / ranks); };
  const Tensor mixed = ops::merge_heads(ops::attention(heads(q), heads(k), heads(v)));
  const ops::Partial product{
      .addend = ops::linear(mixed, param("out.weight", Shape{kWidth, kWidth}, split(1))),
      .bias = param("out.bias", Shape{kWidth})};
  ops::output("y", ops::reduce(product));
}

// A row-parallel product over the concatenation of two split inputs, as in FLUX's single block.
void trace_two_segments(Graph& g) {
  const Declare param{g};
  const Tensor x = ops::input(g, "x", DType::F32, Shape{3, kWidth});
  const Tensor a = ops::linear(x, param("a", Shape{kWidth, kWidth}, split(0)));
  const Tensor b = ops::linear(x, param("b", Shape{2 * kWidth, kWidth}, split(0)));
  const Tensor out = param("out", Shape{kWidth, 3 * kWidth}, split(1, {kWidth, 2 * kWidth}));
  ops::output("y", ops::reduce(ops::Partial{.addend = ops::linear(ops::concat({a, b}, -1), out)}));
}

// Tokens split over the context ranks: each takes its own, attends over the gathered keys and values.
void trace_context(Graph& g) {
  const std::int64_t ranks = g.mesh().size(Axis::Cp);
  const std::int64_t own = 8 / ranks;
  const Tensor x = ops::input(g, "x", DType::F32, Shape{1, 8, kHeads, 4});
  const Tensor start =
      ops::rank_index(g, Axis::Cp) * ops::scalar(g, DType::I32, static_cast<double>(own));
  const Tensor mine{&g, g.add(graph::DynamicSlice{1, own}, {x.id, start.id})};
  const Tensor keys = ops::all_gather(mine, Axis::Cp, 1);
  const Tensor attended = ops::attention(mine, keys, keys);
  // Ulysses: all tokens of some heads instead of some tokens of all heads, and back.
  const Tensor by_heads = ops::all_to_all(attended, Axis::Cp, 2, 1);
  const Tensor again = ops::attention(by_heads, by_heads, by_heads);
  ops::output("y", ops::all_gather(ops::all_to_all(again, Axis::Cp, 1, 2), Axis::Cp, 1));
}

using Trace = void (*)(Graph&);

Graph traced(Trace trace, const spmd::Mesh& mesh) {
  Graph g("program", mesh);
  trace(g);
  graph::verify(g);
  return g;
}

std::vector<HostTensor> run(const Graph& g) {
  std::vector<HostTensor> inputs;
  for (const graph::NodeId id : g.inputs()) {
    inputs.push_back(noise(g.node(id).type.shape, 1));
  }
  std::vector<HostTensor> by_rank;
  for (const auto& outputs : reference::run_ranks(g, NoiseWeights(), inputs)) {
    by_rank.push_back(outputs.at(0));
  }
  return by_rank;
}

void expect_equals_one_rank(Trace trace, const spmd::Mesh& mesh) {
  const HostTensor whole = run(traced(trace, {}))[0];
  const std::vector<HostTensor> ranks = run(traced(trace, mesh));
  ASSERT_EQ(static_cast<std::int64_t>(ranks.size()), mesh.ranks());
  for (const HostTensor& y : ranks) {
    const Difference difference = compare(y, whole);
    EXPECT_LE(difference.relative, 1e-6) << difference.str();
  }
}

template <typename O>
std::int64_t count(const Graph& g) {
  return std::ranges::count_if(
      g.nodes(), [](const graph::Node& node) { return std::holds_alternative<O>(node.op); });
}

TEST(Spmd, MlpOverTensorParallelRanks) {
  expect_equals_one_rank(trace_mlp, {1, 1, 1, 2});
  expect_equals_one_rank(trace_mlp, {1, 1, 1, 4});
  expect_equals_one_rank(trace_mlp, {2, 1, 1, 2});
}

TEST(Spmd, AttentionHeadsOverTensorParallelRanks) {
  expect_equals_one_rank(trace_attention, {1, 1, 1, 2});
  expect_equals_one_rank(trace_attention, {1, 1, 1, 4});
}

TEST(Spmd, SegmentsOfAConcatenatedInput) {
  expect_equals_one_rank(trace_two_segments, {1, 1, 1, 2});
  expect_equals_one_rank(trace_two_segments, {1, 1, 1, 8});
}

TEST(Spmd, TokensOverContextParallelRanks) {
  expect_equals_one_rank(trace_context, {1, 1, 2, 1});
  expect_equals_one_rank(trace_context, {1, 2, 4, 1});
}

TEST(Spmd, AGroupOfOneEmitsNothing) {
  const Graph one = traced(trace_mlp, {1, 1, 2, 1});
  EXPECT_EQ(count<graph::AllReduce>(one), 0);
  const Graph context = traced(trace_context, {1, 1, 1, 2});
  EXPECT_EQ(count<graph::AllGather>(context), 0);
  EXPECT_EQ(count<graph::AllToAll>(context), 0);
  EXPECT_EQ(count<graph::AllReduce>(traced(trace_mlp, {1, 1, 1, 2})), 1);
}

TEST(Spmd, ARankHoldsItsShardOnly) {
  const Graph g = traced(trace_attention, {1, 1, 1, 4});
  for (const graph::Node& node : g.nodes()) {
    if (const auto* param = std::get_if<graph::Param>(&node.op)) {
      const ParamDecl& decl = g.params()[static_cast<std::size_t>(param->index)];
      const std::int64_t parts = decl.placement.split ? 4 : 1;
      EXPECT_EQ(node.type.shape.elements() * parts, decl.shape.elements()) << decl.name;
    }
  }
}

TEST(Spmd, TheBiasIsAddedOnceAfterTheSum) {
  const auto trace = [](Graph& g) {
    const Tensor x = ops::input(g, "x", DType::F32, Shape{1});
    const Tensor one = ops::scalar(g, DType::F32, 1);
    ops::output("y", ops::reduce(ops::Partial{.addend = x * 0.0, .bias = one}));
  };
  for (const HostTensor& y : run(traced(trace, {1, 1, 1, 4}))) {
    EXPECT_EQ(y.to_floats(), std::vector<float>{1});
  }
}

TEST(Spmd, SeveralPartialsReduceAsEachAlone) {
  const auto trace = [](Graph& g) {
    const Tensor x = ops::input(g, "x", DType::F32, Shape{2});
    const auto [a, b] = ops::reduce(ops::Partial{.addend = x}, ops::Partial{.addend = x * x});
    ops::output("y", a + b);
  };
  const std::vector<float> x = noise(Shape{2}, 1).to_floats();
  const std::vector<float> y = run(traced(trace, {1, 1, 1, 2}))[1].to_floats();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(y[i], 2 * (x[i] + x[i] * x[i]), 1e-6);
  }
}

TEST(Spmd, TheRankIsLiveAtRunTime) {
  // One graph, one trace: every rank reads its own index.
  Graph g("rank", {1, 1, 1, 4});
  ops::output("y", ops::convert(ops::rank_index(g, Axis::Tp), DType::F32));
  const std::vector<HostTensor> ranks = run(g);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].to_floats(), std::vector<float>{static_cast<float>(rank)});
  }
}

}  // namespace
}  // namespace difflet
