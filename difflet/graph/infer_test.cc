#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/graph/graph.h"

namespace difflet::graph {
namespace {

Type t(DType dtype, const Shape& shape) { return {dtype, shape}; }
Type f32(const Shape& shape) { return t(DType::F32, shape); }
Type bf16(const Shape& shape) { return t(DType::BF16, shape); }
Type i32(const Shape& shape) { return t(DType::I32, shape); }

Type type_of(const Op& op, const std::vector<Type>& operands) {
  return infer(op, operands, Graph("t", spmd::Mesh(1, 1, 2, 4)));
}

void expect_refused(const Op& op, const std::vector<Type>& operands, std::string_view message) {
  EXPECT_ERROR(type_of(op, operands), ErrorCode::InvalidArgument, message);
}

TEST(Infer, LinearShowsBothTypesAndTheAxes) {
  expect_refused(Linear{}, {bf16({1, 512, 3000}), bf16({9216, 3072})},
                 "linear: x bf16[1, 512, 3000] does not fit weight bf16[9216, 3072] "
                 "(last axis 3000, weight axis 1 3072)");
}

TEST(Infer, LinearKeepsTheDtypeOfX) {
  EXPECT_EQ(type_of(Linear{.bias = true}, {bf16({2, 3}), bf16({4, 3}), f32({4})}), bf16({2, 4}));
  expect_refused(Linear{}, {f32({2, 3}), bf16({4, 3})}, "weight must be f32 or f32");
  expect_refused(Linear{.bias = true}, {f32({2, 3}), f32({4, 3}), f32({3})},
                 "bias must have shape [4]");
  expect_refused(Linear{.residual = true}, {f32({2, 3}), f32({4, 3}), f32({1, 4})},
                 "residual must be f32[2, 4], not f32[1, 4]");
  expect_refused(Linear{.mul = true}, {f32({2, 3}), f32({4, 3}), f32({3, 4})},
                 "mul f32[3, 4] does not broadcast");
  EXPECT_EQ(type_of(Linear{.mul = true}, {f32({2, 3}), f32({4, 3}), f32({})}), f32({2, 4}));
}

TEST(Infer, NamesTheScope) {
  Graph graph("t");
  graph.set_scope("blocks.0.mlp");
  const NodeId a = graph.add(Iota{DType::F32, Shape{2}, 0}, {});
  EXPECT_ERROR(graph.add(Convert{DType::F32}, {a, a}), ErrorCode::InvalidArgument,
               "blocks.0.mlp: convert: takes 1 operands, not 2; operands f32[2], f32[2]");
}

TEST(Infer, ElementwiseOpsBroadcastAndDoNotMixDtypes) {
  EXPECT_EQ(type_of(Binary{}, {f32({2, 1, 3}), f32({4, 1})}), f32({2, 4, 3}));
  expect_refused(Binary{}, {f32({2}), bf16({2})}, "add of mixed dtypes; convert one");
  expect_refused(Binary{}, {f32({2}), f32({3})}, "[2] and [3] do not broadcast");
  expect_refused(Binary{BinaryKind::Pow}, {i32({2}), i32({2})}, "pow is for floating-point");
  EXPECT_EQ(type_of(Compare{}, {i32({2}), i32({})}), t(DType::Bool, {2}));
  EXPECT_EQ(type_of(Select{}, {t(DType::Bool, {2, 1}), f32({}), f32({3})}), f32({2, 3}));
  expect_refused(Select{}, {f32({2}), f32({2}), f32({2})}, "the condition must be bool");
  expect_refused(Unary{UnaryKind::Exp}, {i32({2})}, "exp is not defined for i32[2]");
  EXPECT_EQ(type_of(Unary{UnaryKind::Neg}, {i32({2})}), i32({2}));
}

TEST(Infer, ShapeOps) {
  expect_refused(Reshape{Shape{5}}, {f32({2, 3})}, "[5] does not hold the 6 elements of f32[2, 3]");
  expect_refused(Transpose{{0, 0}}, {f32({2, 3})}, "axis 0 appears twice");
  expect_refused(Broadcast{Shape{2}}, {f32({3})}, "f32[3] does not broadcast to [2]");
  EXPECT_EQ(type_of(Slice{1, 1, 6, 2}, {f32({2, 6})}), f32({2, 3}));
  expect_refused(Slice{0, 1, 3, 1}, {f32({2})}, "[1:3:1] is not a part of axis 0 of f32[2]");
  EXPECT_EQ(type_of(DynamicSlice{0, 2}, {f32({5}), i32({})}), f32({2}));
  expect_refused(DynamicSlice{0, 2}, {f32({5}), i32({1})}, "the start must be i32[]");
  expect_refused(Concat{0}, {f32({2, 3}), f32({2, 4})}, "differ outside axis 0");
  EXPECT_EQ(type_of(Gather{}, {f32({5, 3}), i32({2, 2})}), f32({2, 2, 3}));
}

TEST(Infer, Products) {
  EXPECT_EQ(type_of(MatMul{}, {f32({5, 1, 2, 3}), f32({4, 3, 6})}), f32({5, 4, 2, 6}));
  expect_refused(MatMul{}, {f32({2, 3}), f32({2, 3})}, "(last axis 3, second to last axis 2)");
  EXPECT_EQ(type_of(Conv2d{.stride = 2, .pad_bottom = 1, .pad_right = 1},
                    {f32({1, 8, 8, 3}), f32({5, 3, 3, 3})}),
            f32({1, 4, 4, 5}));
  expect_refused(Conv2d{.groups = 2}, {f32({1, 8, 8, 3}), f32({4, 1, 1, 1})}, "in 2 groups");
  EXPECT_EQ(type_of(Reduce{ReduceKind::Sum, {0, 2}}, {f32({2, 3, 4})}), f32({1, 3, 1}));
  expect_refused(Reduce{ReduceKind::Sum, {1, 0}}, {f32({2, 3})}, "axes must be ascending");
  EXPECT_EQ(type_of(ArgMax{0}, {f32({2, 3})}), i32({3}));
}

TEST(Infer, CollectivesFitTheMesh) {
  EXPECT_EQ(type_of(AllGather{spmd::Axis::Tp, 1, 4}, {f32({2, 3})}), f32({2, 12}));
  expect_refused(AllGather{spmd::Axis::Tp, 1, 2}, {f32({2, 3})},
                 "the group has 2 ranks, but mesh axis tp has 4");
  EXPECT_EQ(type_of(AllToAll{spmd::Axis::Cp, 0, 1, 2}, {f32({2, 3})}), f32({1, 6}));
  expect_refused(ReduceScatter{spmd::Axis::Tp, 0, 4}, {f32({6})}, "does not divide by tp=4");
}

TEST(Infer, Composites) {
  expect_refused(Rope{}, {f32({1, 2, 3, 4}), f32({2, 4}), f32({2, 4})},
                 "cos and sin must be f32[2, 2]");
  EXPECT_EQ(type_of(Rope{}, {bf16({1, 2, 3, 4}), f32({2, 2}), f32({2, 2})}), bf16({1, 2, 3, 4}));
  EXPECT_EQ(type_of(Attention{}, {f32({1, 2, 4, 8}), f32({1, 3, 2, 8}), f32({1, 3, 2, 5})}),
            f32({1, 2, 4, 5}));
  expect_refused(Attention{}, {f32({1, 2, 3, 8}), f32({1, 3, 2, 8}), f32({1, 3, 2, 8})},
                 "3 query heads are no multiple of 2 key heads");
  expect_refused(Attention{.bias = true},
                 {bf16({1, 2, 1, 8}), bf16({1, 3, 1, 8}), bf16({1, 3, 1, 8}), bf16({1, 1, 2, 3})},
                 "bias must be f32");
  expect_refused(LayerNorm{.modulated = true}, {f32({1, 2, 4}), f32({2, 1, 4}), f32({4})},
                 "scale f32[2, 1, 4] does not broadcast to [1, 2, 4]");
  expect_refused(GroupNorm{.groups = 3}, {f32({1, 2, 4}), f32({4}), f32({4})},
                 "4 channels do not divide into 3 groups");
  expect_refused(Softmax{}, {i32({2})}, "operand 0 must be floating-point");
}

TEST(Params, AreCutBySegments) {
  const spmd::Mesh mesh(1, 1, 1, 2);
  const ParamDecl decl{"w", {}, DType::F32, Shape{6, 1}, {true, 0, spmd::Axis::Tp, {2, 4}}};
  EXPECT_EQ(local_shape(decl, mesh), (Shape{3, 1}));
  const std::vector<float> values{0, 1, 2, 3, 4, 5};
  const HostTensor whole = HostTensor::from(Shape{6, 1}, std::span<const float>(values));
  EXPECT_EQ(local_shard(decl, mesh, 0, whole).to_floats(), (std::vector<float>{0, 2, 3}));
  EXPECT_EQ(local_shard(decl, mesh, 1, whole).to_floats(), (std::vector<float>{1, 4, 5}));
}

TEST(Params, AreCutAlongInnerAxes) {
  const spmd::Mesh mesh(1, 1, 1, 2);
  const ParamDecl decl{"w", {}, DType::F32, Shape{2, 4}, {true, 1, spmd::Axis::Tp, {2, 2}}};
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7};
  const HostTensor whole = HostTensor::from(Shape{2, 4}, std::span<const float>(values));
  EXPECT_EQ(local_shard(decl, mesh, 1, whole).to_floats(), (std::vector<float>{1, 3, 5, 7}));
}

TEST(Params, RefuseSegmentsThatDoNotDivide) {
  const spmd::Mesh mesh(1, 1, 1, 4);
  const Placement placement{true, 0, spmd::Axis::Tp, {6, 6}};
  EXPECT_ERROR(local_shape({"block.w", {}, DType::F32, Shape{12}, placement}, mesh),
               ErrorCode::InvalidArgument,
               "param 'block.w': 6 of axis 0 of [12] does not divide by tp=4");
  EXPECT_ERROR(local_shape({"block.w", {}, DType::F32, Shape{16}, placement}, mesh),
               ErrorCode::InvalidArgument, "segments 6, 6 do not sum to axis 0 of [16]");
}

TEST(Params, TheSameDeclarationIsTheSameNode) {
  Graph graph("t");
  const ParamDecl decl{"w", {}, DType::F32, Shape{2}, {}};
  const NodeId first = graph.add_param(decl);
  EXPECT_EQ(graph.add_param(decl), first);
  EXPECT_ERROR(graph.add_param({"w", {}, DType::BF16, Shape{2}, {}}), ErrorCode::InvalidArgument,
               "param 'w' is declared twice");
  EXPECT_EQ(graph.params().size(), 1U);
}

TEST(Verify, RefusesASecondNodeForAParameter) {
  Graph graph("t");
  graph.add_param({"w", {}, DType::F32, Shape{2}, {}});
  graph.add(Param{0}, {});
  EXPECT_ERROR(verify(graph), ErrorCode::InvalidArgument, "param 'w' has 2 nodes, not 1");
}

}  // namespace
}  // namespace difflet::graph
