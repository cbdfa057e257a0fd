#include "difflet/graph/cost.h"

#include <gtest/gtest.h>

#include "difflet/graph/builder.h"

namespace difflet::graph {
namespace {

NodeId input(Graph& g, const std::string& name, const Shape& shape) {
  return g.add(Input{name, DType::F32, shape}, {});
}

TEST(Flops, ProductsCountTwoAMultiplyAdd) {
  Graph g("t");
  const NodeId x = input(g, "x", Shape{2, 3, 5});
  const NodeId w = input(g, "w", Shape{7, 5});
  EXPECT_EQ(flops(g, g.add(Linear{}, {x, w})), 2 * 6 * 5 * 7);
  const NodeId m = input(g, "m", Shape{4, 1, 5, 9});
  EXPECT_EQ(flops(g, g.add(MatMul{}, {x, m})), 2 * (4 * 2 * 3 * 9) * 5);
  const NodeId image = input(g, "image", Shape{1, 8, 8, 6});
  const NodeId kernel = input(g, "kernel", Shape{4, 3, 3, 3});
  const NodeId conv = g.add(Conv2d{.stride = 2, .groups = 2}, {image, kernel});
  EXPECT_EQ(flops(g, conv), 2 * (3 * 3 * 4) * (3 * 3 * 3));
}

TEST(Flops, AttentionCountsEveryKey) {
  Graph g("t");
  const NodeId q = input(g, "q", Shape{2, 3, 4, 8});
  const NodeId k = input(g, "k", Shape{2, 5, 2, 8});
  const NodeId v = input(g, "v", Shape{2, 5, 2, 6});
  const NodeId a = g.add(Attention{.causal = true}, {q, k, v});
  EXPECT_EQ(flops(g, a), 2 * (2 * 4 * 3 * 5) * (8 + 6));
}

TEST(Flops, OtherOpsCountElements) {
  Graph g("t");
  Builder b(g);
  const NodeId x = input(g, "x", Shape{2, 3});
  EXPECT_EQ(flops(g, x), 0);
  EXPECT_EQ(flops(g, b.add(x, b.f32(1))), 6);
  EXPECT_EQ(flops(g, b.reduce(ReduceKind::Sum, x, {1})), 6);
  EXPECT_EQ(flops(g, b.reshape(x, Shape{6})), 0);
  EXPECT_EQ(flops(g, g.add(LayerNorm{}, {x})), 48);
  EXPECT_EQ(flops(g), 6 + 6 + 48);
}

TEST(WeightBytes, CountThisRanksPartOnce) {
  Graph g("t", spmd::Mesh(1, 1, 1, 2));
  const NodeId x = input(g, "x", Shape{1, 4});
  const NodeId w = g.add_param({"w", {}, DType::F32, Shape{6, 4}, {.split = true, .dim = 0}});
  g.add_param({"b", {}, DType::BF16, Shape{3}, {}});
  g.add(Linear{}, {x, w});
  g.add(Linear{}, {x, w});
  EXPECT_EQ(weight_bytes(g), 3U * 4U * 4U + 3U * 2U);
}

}  // namespace
}  // namespace difflet::graph
