#include "difflet/ops/tensor.h"

#include <gtest/gtest.h>

#include "difflet/base/testing.h"

namespace difflet::ops {
namespace {

using graph::Graph;

TEST(Ops, ReshapeFillsInOneExtent) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::F32, Shape{2, 3, 4});
  EXPECT_EQ(reshape(x, {2, -1}).shape(), (Shape{2, 12}));
  EXPECT_EQ(reshape(x, Shape{24}).shape(), Shape{24});
  EXPECT_ERROR(reshape(x, {-1, -1}), ErrorCode::InvalidArgument, "two extents are -1");
  EXPECT_ERROR(reshape(x, {5, -1}), ErrorCode::InvalidArgument, "5 does not divide its elements");
}

TEST(Ops, NegativeAxesCountFromTheEnd) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::F32, Shape{2, 3, 4});
  EXPECT_EQ(slice(x, -1, 1, 3).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(transpose(x, {-1, 0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(reduce(graph::ReduceKind::Sum, x, {-1, 0}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(argmax(x, -1).shape(), (Shape{2, 3}));
  EXPECT_ERROR(slice(x, 3, 0, 1), ErrorCode::InvalidArgument, "axis 3 is out of range");
}

TEST(Ops, WhatChangesNothingAddsNoNode) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::F32, Shape{2, 3});
  reshape(x, Shape{2, 3});
  broadcast(x, Shape{2, 3});
  slice(x, 0, 0, 2);
  concat({x}, 0);
  convert(x, DType::F32);
  activate(x, graph::Activation::None);
  EXPECT_EQ(g.nodes().size(), 1U);
}

TEST(Ops, ChunkAndSplitCoverTheAxis) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::F32, Shape{2, 6});
  const auto [a, b, c] = chunk<3>(x, -1);
  EXPECT_EQ(a.shape(), (Shape{2, 2}));
  EXPECT_EQ(c.shape(), (Shape{2, 2}));
  EXPECT_EQ(split(x, {1, 5}, 1)[1].shape(), (Shape{2, 5}));
  EXPECT_ERROR(split(x, {1, 4}, 1), ErrorCode::InvalidArgument, "the extents sum to 5");
}

TEST(Ops, ScalarsTakeTheDtypeOfTheTensor) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::BF16, Shape{2});
  EXPECT_EQ((1.0 + x * 2.0).dtype(), DType::BF16);
  EXPECT_ERROR(x + scalar(g, DType::F32, 1), ErrorCode::InvalidArgument,
               "add of mixed dtypes; convert one; operands bf16[2], f32[]");
}

TEST(Ops, OperandsBelongToOneGraph) {
  Graph g("a");
  Graph h("b");
  EXPECT_ERROR(input(g, "x", DType::F32, Shape{2}) + input(h, "x", DType::F32, Shape{2}),
               ErrorCode::Internal, "operands of different graphs");
}

TEST(Ops, AttentionScalesByTheHeadWidth) {
  Graph g("t");
  const Tensor q = input(g, "q", DType::F32, Shape{1, 2, 1, 16});
  EXPECT_EQ(std::get<graph::Attention>(g.node(attention(q, q, q).id).op).scale, 0.25);
  EXPECT_EQ(std::get<graph::Attention>(g.node(attention(q, q, q, {.scale = 2}).id).op).scale, 2);
}

TEST(Ops, ConvPaddingGoesToEverySideUnlessGiven) {
  Graph g("t");
  const Tensor x = input(g, "x", DType::F32, Shape{1, 8, 8, 3});
  const Tensor w = input(g, "w", DType::F32, Shape{4, 3, 3, 3});
  EXPECT_EQ(conv2d(x, w, {}, {.pad = 1}).shape(), (Shape{1, 8, 8, 4}));
  EXPECT_EQ(conv2d(x, w, {}, {.pad = 1, .pad_top = 0}).shape(), (Shape{1, 7, 8, 4}));
}

}  // namespace
}  // namespace difflet::ops
