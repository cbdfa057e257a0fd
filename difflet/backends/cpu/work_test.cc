// What steps count as their work: operations and bytes of graphs small enough to count by hand.
#include <gtest/gtest.h>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/testing.h"

namespace difflet::cpu {
namespace {

using testing::Program;
using Id = graph::NodeId;

constexpr double kF32 = 4;

Plan plan(const Program& p) {
  const graph::Graph g = prepare(p.graph());
  return Planner(g, {.level = Level::Scalar, .threads = 1}).build();
}

TEST(Work, LinearReadsItsPackedWeightsOnce) {
  Program p;
  p.output(p.linear("w", p.input("x", {2, 5, 8}), 16));
  const Plan made = plan(p);
  ASSERT_EQ(made.steps.size(), 1U);
  const auto weight = static_cast<double>(made.weights.at(0).piece.bytes);
  EXPECT_GE(weight, kF32 * 16 * 8);
  EXPECT_EQ(made.steps[0].flops, 2.0 * 10 * 16 * 8);
  EXPECT_EQ(made.steps[0].bytes, kF32 * 10 * 8 + weight + kF32 * 10 * 16);
}

Plan attention(const graph::Attention& op, std::int64_t queries, std::int64_t keys) {
  Program p;
  const Id q = p.input("q", {1, queries, 2, 4});
  const Id k = p.input("k", {1, keys, 2, 4});
  const Id v = p.input("v", {1, keys, 2, 4});
  p.output(p.add(op, {q, k, v}));
  return plan(p);
}

TEST(Work, AttentionIsTwoProducts) {
  const Plan made = attention({.scale = 1}, 3, 5);
  EXPECT_EQ(made.steps.at(0).flops, 2.0 * 2 * 2 * 3 * 5 * 4);
  EXPECT_EQ(made.steps.at(0).bytes, kF32 * 2 * 4 * (3 + 5 + 5 + 3));
}

TEST(Work, CausalAttentionCountsTheKeysThatAreSeen) {
  // Of five keys, the three queries see 3, 4 and 5.
  EXPECT_EQ(attention({.scale = 1, .causal = true}, 3, 5).steps.at(0).flops,
            2.0 * 2 * 2 * (3 + 4 + 5) * 4);
  EXPECT_EQ(attention({.scale = 1, .causal = true}, 1, 1).steps.at(0).flops, 2.0 * 2 * 2 * 4);
}

TEST(Work, ConvolutionCountsEveryTap) {
  Program p;
  const Id x = p.input("x", {1, 6, 5, 4});
  p.output(p.add(graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1},
                 {x, p.param("w", {8, 4, 3, 3})}));
  const Plan made = plan(p);
  const auto weight = static_cast<double>(made.weights.at(0).piece.bytes);
  EXPECT_EQ(made.steps.at(0).flops, 2.0 * 6 * 5 * 8 * 4 * 9);
  EXPECT_EQ(made.steps.at(0).bytes, kF32 * 6 * 5 * 4 + weight + kF32 * 6 * 5 * 8);
}

TEST(Work, BroadcastOperandIsReadOnce) {
  Program p;
  const Id x = p.input("x", {4, 8});
  const Id row = p.add(graph::Broadcast{{4, 8}}, {p.input("row", {1, 8})});
  p.output(p.add(graph::Binary{}, {x, row}));
  const Plan made = plan(p);
  EXPECT_EQ(made.steps.at(0).flops, 0);
  EXPECT_EQ(made.steps.at(0).bytes, kF32 * (32 + 8 + 32));
}

TEST(Work, SameOperandTwiceIsReadOnce) {
  Program p;
  const Id x = p.input("x", {4, 8});
  p.output(p.add(graph::Binary{}, {x, x}));
  EXPECT_EQ(plan(p).steps.at(0).bytes, kF32 * (32 + 32));
}

TEST(Work, GatherReadsTheRowsThatItTakes) {
  Program p;
  const Id table = p.input("table", {1000, 8});
  p.output(p.add(graph::Gather{}, {table, p.input("index", {3}, DType::I32)}));
  EXPECT_EQ(plan(p).steps.at(0).bytes, 3 * 4 + kF32 * 3 * 8 * 2);
}

TEST(Work, DynamicSliceReadsWhatItTakes) {
  Program p;
  const Id x = p.input("x", {100, 8});
  p.output(p.add(graph::DynamicSlice{.axis = 0, .extent = 2},
                 {x, p.input("start", Shape(std::vector<std::int64_t>{}), DType::I32)}));
  EXPECT_EQ(plan(p).steps.at(0).bytes, 4 + kF32 * 2 * 8 * 2);
}

}  // namespace
}  // namespace difflet::cpu
