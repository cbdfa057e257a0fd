#include "difflet/backends/cpu/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/testing.h"
#include "difflet/base/testing.h"

namespace difflet::cpu {
namespace {

using ::testing::ElementsAre;
using testing::Program;
using Id = graph::NodeId;

Plan plan(const Program& p) {
  const graph::Graph g = prepare(p.graph());
  return Planner(g, {.level = Level::Scalar, .threads = 2}).build();
}

// The kernels of all steps, without their scopes.
std::vector<std::string> kernels(const Plan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.steps.size());
  for (const Step& s : plan.steps) {
    names.push_back(s.what.substr(0, s.what.find(' ')));
  }
  return names;
}

const std::string kLinear = "linear.scalar.f32";

// ---- concatenation ------------------------------------------------------------------------------

TEST(Concat, OfTokensIsWrittenByItsProducers) {
  Program p;
  const Id text = p.linear("wt", p.input("t", {2, 3, 8}), 8);
  const Id image = p.linear("wi", p.input("x", {2, 5, 8}), 8);
  p.output(p.activate(p.concat({text, image}, 1)));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, kLinear, "activate"));
}

TEST(Concat, OfChannelsIsWrittenByItsProducers) {
  // The single block's [attention, mlp], one part coming through a reshape of heads.
  Program p;
  const Id x = p.input("x", {2, 5, 8});
  const Id heads = p.reshape(p.linear("wq", x, 8), {2, 5, 2, 4});
  const Id attention = p.add(graph::Attention{.scale = 0.5}, {heads, heads, heads});
  const Id mlp = p.activate(p.linear("wm", x, 32));
  p.output(p.linear("wo", p.concat({p.reshape(attention, {2, 5, 8}), mlp}, 2), 8));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, "attention.scalar", kLinear, kLinear));
}

TEST(Concat, InsideAnotherIsWrittenOnce) {
  Program p;
  const Id x = p.input("x", {2, 4});
  const Id inner = p.concat({p.linear("a", x, 4), p.linear("b", x, 4)}, 1);
  p.output(p.concat({inner, p.linear("c", x, 4)}, 1));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, kLinear, kLinear));
}

TEST(Concat, OfOneOperandTwiceCopiesTheSecond) {
  Program p;
  const Id x = p.linear("a", p.input("x", {2, 4}), 4);
  p.output(p.concat({x, x}, 0));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, "copy"));
}

TEST(Concat, OfInputsParametersAndViewsCopies) {
  Program p;
  const Id x = p.input("x", {4, 4});
  const Id turned = p.add(graph::Transpose{{1, 0}}, {p.linear("a", x, 4)});
  p.output(p.concat({x, p.param("w", {2, 4}), turned}, 0));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, "copy", "copy", "copy"));
}

TEST(Concat, OfOperandsSharedByTwoCopiesForTheSecond) {
  Program p;
  const Id x = p.linear("a", p.input("x", {2, 4}), 4);
  const Id y = p.activate(x);
  p.output(p.activate(p.concat({x, y}, 0)));
  p.output(p.activate(p.concat({y, x}, 0)));
  const auto steps = kernels(plan(p));
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "copy"), 2);
}

// ---- shape ops ----------------------------------------------------------------------------------

TEST(ShapeOps, MakeNoStep) {
  Program p;
  const Id qkv = p.linear("w", p.input("x", {2, 5, 8}), 24);
  std::vector<Id> heads;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Id part = p.add(graph::Slice{.axis = 2, .start = 8 * i, .limit = 8 * (i + 1)}, {qkv});
    heads.push_back(p.reshape(part, {2, 5, 2, 4}));
  }
  p.output(p.add(graph::Attention{.scale = 0.5}, heads));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear, "attention.scalar"));
}

TEST(ShapeOps, ReshapeOfAStridedViewThatStridesCannotSayCopies) {
  Program p;
  const Id x = p.activate(p.input("x", {4, 6}));
  const Id turned = p.add(graph::Transpose{{1, 0}}, {x});
  p.output(p.activate(p.reshape(turned, {24})));
  EXPECT_THAT(kernels(plan(p)), ElementsAre("activate", "copy", "activate"));
}

TEST(ShapeOps, OneCopyServesAllReaders) {
  Program p;
  const Id x = p.activate(p.input("x", {4, 6}));
  const Id turned = p.add(graph::Transpose{{1, 0}}, {x});
  p.output(p.linear("a", turned, 2));
  p.output(p.linear("b", turned, 2));
  EXPECT_THAT(kernels(plan(p)), ElementsAre("activate", "copy", kLinear, kLinear));
}

// ---- outputs ------------------------------------------------------------------------------------

TEST(Outputs, AreWrittenByTheirNode) {
  Program p;
  const Id x = p.activate(p.input("x", {4, 6}));
  p.output(p.reshape(x, {24}));
  const Plan made = plan(p);
  EXPECT_THAT(kernels(made), ElementsAre("activate"));
  EXPECT_EQ(made.arena_bytes, 0U);
}

TEST(Outputs, ThatNobodyWritesAreCopied) {
  Program p;
  const Id x = p.input("x", {4, 6});
  const Id y = p.activate(x);
  p.output(x);
  p.output(p.param("w", {3}));
  p.output(p.add(graph::Slice{.axis = 0, .start = 1, .limit = 3}, {y}));
  // Each as soon as it is there.
  EXPECT_THAT(kernels(plan(p)), ElementsAre("copy", "activate", "copy", "copy"));
}

TEST(Outputs, OfOneNodeTwiceAreCopied) {
  Program p;
  const Id y = p.activate(p.input("x", {4, 6}));
  p.output(y);
  p.output(y);
  EXPECT_THAT(kernels(plan(p)), ElementsAre("activate", "copy"));
}

// ---- operands -----------------------------------------------------------------------------------

TEST(Linear, ReadsAndWritesBatchesOfStridedRowsInPlace) {
  // A slice of tokens in each of two pictures: two blocks of rows, no copy.
  Program p;
  const Id x = p.activate(p.input("x", {2, 7, 8}));
  const Id part = p.add(graph::Slice{.axis = 1, .start = 3, .limit = 7}, {x});
  p.output(p.linear("w", part, 8));
  EXPECT_THAT(kernels(plan(p)), ElementsAre("activate", kLinear));
}

TEST(Linear, TakesGateAndResidualOfABatchInItsEpilogue) {
  Program p;
  const Id x = p.input("x", {2, 5, 8});
  const Id gate = p.input("gate", {2, 1, 8});
  const Id scaled = p.add(graph::Binary{graph::BinaryKind::Mul}, {gate, p.linear("w", x, 8)});
  p.output(p.add(graph::Binary{graph::BinaryKind::Add}, {x, scaled}));
  EXPECT_THAT(kernels(plan(p)), ElementsAre(kLinear));
}

TEST(Linear, PacksAWeightThatTwoNodesShareOnce) {
  Program p;
  const Id w = p.param("w", {8, 8});
  const Id x = p.add(graph::Linear{}, {p.input("x", {3, 8}), w});
  p.output(p.add(graph::Linear{}, {x, w}));
  const Plan made = plan(p);
  ASSERT_EQ(made.weights.size(), 1U);
  EXPECT_GE(made.weights[0].piece.bytes, 8U * 8U * 4U);
}

TEST(Collectives, AreRefused) {
  graph::Graph g("g", spmd::Mesh(1, 1, 1, 2));
  const Id x = g.add(graph::Input{"x", DType::F32, Shape{2}}, {});
  g.add_output("y", g.add(graph::AllReduce{}, {x}));
  EXPECT_ERROR((void)Planner(g, {.level = Level::Scalar, .threads = 1}).build(),
               ErrorCode::Unsupported, "reference backend");
}

TEST(Conv, NeedsAParameterAsWeight) {
  Program p;
  const Id w = p.activate(p.input("w", {16, 16, 3, 3}));
  p.output(p.add(graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1},
                 {p.input("x", {1, 8, 8, 16}), w}));
  EXPECT_ERROR((void)plan(p), ErrorCode::Unsupported, "parameter");
}

}  // namespace
}  // namespace difflet::cpu
