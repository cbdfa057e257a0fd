#include "difflet/graph/passes/batch_axis.h"

#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

// The input "t" gets an axis of 5.
void expect_batched(std::string_view before, std::string_view after, int tp = 1) {
  const std::vector<std::string> inputs{"t"};
  const Graph result = batch_axis(parse(wrap(before, tp)), 5, inputs);
  EXPECT_EQ(print(result), wrap(indent(after), tp));
  EXPECT_NO_THROW(verify(result));
}

void expect_refused(std::string_view body, std::string_view reason) {
  const std::vector<std::string> inputs{"t"};
  EXPECT_ERROR(batch_axis(parse(wrap(body)), 5, inputs), ErrorCode::Unsupported, reason);
}

TEST(BatchAxis, ReachesOnlyWhatDependsOnTheInput) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2]} : f32[2]
      %1 = input() {name="x", shape=[2]} : f32[2]
      %2 = unary(%0) : f32[2]
      %3 = unary(%1) : f32[2]
      return "y"=%2, "z"=%3
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2]} : f32[5, 2]
      %1 = input() {name="x", shape=[2]} : f32[2]
      %2 = unary(%0) : f32[5, 2]
      %3 = unary(%1) : f32[2]
      return "y"=%2, "z"=%3
      )");
}

TEST(BatchAxis, KeepsBroadcasting) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[3]} : f32[3]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = binary(%1, %0) : f32[2, 3]
      %3 = binary(%2, %0) {kind=mul} : f32[2, 3]
      %4 = compare(%3, %1) {kind=lt} : bool[2, 3]
      %5 = select(%4, %3, %0) : f32[2, 3]
      %6 = broadcast(%0) {shape=[4, 2, 3]} : f32[4, 2, 3]
      return "y"=%5, "z"=%6
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 3]} : f32[5, 3]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = reshape(%0) {shape=[5, 1, 3]} : f32[5, 1, 3]
      %3 = binary(%1, %2) : f32[5, 2, 3]
      %4 = binary(%3, %2) {kind=mul} : f32[5, 2, 3]
      %5 = compare(%4, %1) {kind=lt} : bool[5, 2, 3]
      %6 = select(%5, %4, %2) : f32[5, 2, 3]
      %7 = reshape(%0) {shape=[5, 1, 1, 3]} : f32[5, 1, 1, 3]
      %8 = broadcast(%7) {shape=[5, 4, 2, 3]} : f32[5, 4, 2, 3]
      return "y"=%6, "z"=%8
      )");
}

TEST(BatchAxis, MovesAxes) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[4, 6]} : f32[4, 6]
      %1 = input() {name="i", dtype=i32} : i32[]
      %2 = transpose(%0) {permutation=[1, 0]} : f32[6, 4]
      %3 = slice(%2) {axis=1, start=1, limit=3} : f32[6, 2]
      %4 = pad(%3) {axis=1, low=1} : f32[6, 3]
      %5 = dynamic_slice(%4, %1) {extent=2} : f32[2, 3]
      %6 = reduce(%5) {axes=[0]} : f32[1, 3]
      %7 = argmax(%5) : i32[3]
      return "y"=%6, "z"=%7
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 4, 6]} : f32[5, 4, 6]
      %1 = input() {name="i", dtype=i32} : i32[]
      %2 = transpose(%0) {permutation=[0, 2, 1]} : f32[5, 6, 4]
      %3 = slice(%2) {axis=2, start=1, limit=3} : f32[5, 6, 2]
      %4 = pad(%3) {axis=2, low=1} : f32[5, 6, 3]
      %5 = dynamic_slice(%4, %1) {axis=1, extent=2} : f32[5, 2, 3]
      %6 = reduce(%5) {axes=[1]} : f32[5, 1, 3]
      %7 = argmax(%5) {axis=1} : i32[5, 3]
      return "y"=%6, "z"=%7
      )");
}

TEST(BatchAxis, RepeatsWhatIsJoinedToTheAxis) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2]} : f32[2]
      %1 = input() {name="x", shape=[2]} : f32[2]
      %2 = concat(%0, %1) : f32[4]
      %3 = reshape(%2) {shape=[2, 2]} : f32[2, 2]
      return "y"=%3
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2]} : f32[5, 2]
      %1 = input() {name="x", shape=[2]} : f32[2]
      %2 = broadcast(%1) {shape=[5, 2]} : f32[5, 2]
      %3 = concat(%0, %2) {axis=1} : f32[5, 4]
      %4 = reshape(%3) {shape=[5, 2, 2]} : f32[5, 2, 2]
      return "y"=%4
      )");
}

TEST(BatchAxis, ProductsAlignTheirLeadingAxes) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2, 3]} : f32[2, 3]
      %1 = input() {name="x", shape=[4, 3, 6]} : f32[4, 3, 6]
      %2 = input() {name="i", dtype=i32, shape=[2]} : i32[2]
      %3 = matmul(%0, %1) : f32[4, 2, 6]
      %4 = softmax(%3) : f32[4, 2, 6]
      return "y"=%4
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2, 3]} : f32[5, 2, 3]
      %1 = input() {name="x", shape=[4, 3, 6]} : f32[4, 3, 6]
      %2 = input() {name="i", dtype=i32, shape=[2]} : i32[2]
      %3 = reshape(%0) {shape=[5, 1, 2, 3]} : f32[5, 1, 2, 3]
      %4 = matmul(%3, %1) : f32[5, 4, 2, 6]
      %5 = softmax(%4) : f32[5, 4, 2, 6]
      return "y"=%5
      )");
}

TEST(BatchAxis, LinearKeepsItsEpilogue) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[4]} : f32[4]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = param "w" f32[4, 3] : f32[4, 3]
      %3 = linear(%1, %2, %0) {mul=true} : f32[2, 4]
      %4 = linear(%1, %2, %3) {residual=true} : f32[2, 4]
      return "y"=%4
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 4]} : f32[5, 4]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = param "w" f32[4, 3] : f32[4, 3]
      %3 = broadcast(%1) {shape=[5, 2, 3]} : f32[5, 2, 3]
      %4 = reshape(%0) {shape=[5, 1, 4]} : f32[5, 1, 4]
      %5 = linear(%3, %2, %4) {mul=true} : f32[5, 2, 4]
      %6 = linear(%3, %2, %5) {residual=true} : f32[5, 2, 4]
      return "y"=%6
      )");
}

TEST(BatchAxis, NormsAreModulatedByTheAxis) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[4]} : f32[4]
      %1 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %2 = param "w" f32[4] : f32[4]
      %3 = layer_norm(%1, %2, %2, %0, %2) {affine=true, modulated=true} : f32[2, 4]
      %4 = rms_norm(%3, %2) : f32[2, 4]
      return "y"=%4
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 4]} : f32[5, 4]
      %1 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %2 = param "w" f32[4] : f32[4]
      %3 = broadcast(%1) {shape=[5, 2, 4]} : f32[5, 2, 4]
      %4 = reshape(%0) {shape=[5, 1, 4]} : f32[5, 1, 4]
      %5 = layer_norm(%3, %2, %2, %4, %2) {affine=true, modulated=true} : f32[5, 2, 4]
      %6 = rms_norm(%5, %2) : f32[5, 2, 4]
      return "y"=%6
      )");
}

TEST(BatchAxis, MergesIntoTheBatch) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2, 3, 1, 4]} : f32[2, 3, 1, 4]
      %1 = input() {name="k", shape=[2, 6, 1, 4]} : f32[2, 6, 1, 4]
      %2 = input() {name="m", shape=[1, 1, 3, 6]} : f32[1, 1, 3, 6]
      %3 = param "c" f32[3, 2] : f32[3, 2]
      %4 = rope(%0, %3, %3) : f32[2, 3, 1, 4]
      %5 = attention(%4, %1, %1, %2) {bias=true} : f32[2, 3, 1, 4]
      return "y"=%5
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2, 3, 1, 4]} : f32[5, 2, 3, 1, 4]
      %1 = input() {name="k", shape=[2, 6, 1, 4]} : f32[2, 6, 1, 4]
      %2 = input() {name="m", shape=[1, 1, 3, 6]} : f32[1, 1, 3, 6]
      %3 = param "c" f32[3, 2] : f32[3, 2]
      %4 = reshape(%0) {shape=[10, 3, 1, 4]} : f32[10, 3, 1, 4]
      %5 = rope(%4, %3, %3) : f32[10, 3, 1, 4]
      %6 = reshape(%5) {shape=[5, 2, 3, 1, 4]} : f32[5, 2, 3, 1, 4]
      %7 = reshape(%6) {shape=[10, 3, 1, 4]} : f32[10, 3, 1, 4]
      %8 = broadcast(%1) {shape=[5, 2, 6, 1, 4]} : f32[5, 2, 6, 1, 4]
      %9 = reshape(%8) {shape=[10, 6, 1, 4]} : f32[10, 6, 1, 4]
      %10 = attention(%7, %9, %9, %2) {bias=true} : f32[10, 3, 1, 4]
      %11 = reshape(%10) {shape=[5, 2, 3, 1, 4]} : f32[5, 2, 3, 1, 4]
      return "y"=%11
      )");
}

TEST(BatchAxis, PicturesMergeIntoTheBatch) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2, 4, 4, 2]} : f32[2, 4, 4, 2]
      %1 = param "w" f32[2, 2, 1, 1] : f32[2, 2, 1, 1]
      %2 = param "b" f32[2] : f32[2]
      %3 = conv2d(%0, %1, %2) {bias=true} : f32[2, 4, 4, 2]
      return "y"=%3
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2, 4, 4, 2]} : f32[5, 2, 4, 4, 2]
      %1 = param "w" f32[2, 2, 1, 1] : f32[2, 2, 1, 1]
      %2 = param "b" f32[2] : f32[2]
      %3 = reshape(%0) {shape=[10, 4, 4, 2]} : f32[10, 4, 4, 2]
      %4 = conv2d(%3, %1, %2) {bias=true} : f32[10, 4, 4, 2]
      %5 = reshape(%4) {shape=[5, 2, 4, 4, 2]} : f32[5, 2, 4, 4, 2]
      return "y"=%5
      )");
}

TEST(BatchAxis, CollectivesKeepTheirAxis) {
  expect_batched(R"(
      %0 = input() {name="t", shape=[2, 4]} : f32[2, 4]
      %1 = all_gather(%0) {group=2} : f32[4, 4]
      %2 = reduce_scatter(%1) {axis=1, group=2} : f32[4, 2]
      %3 = all_to_all(%2) {mesh_axis=tp, join_axis=1, group=2} : f32[2, 4]
      %4 = all_reduce(%3) : f32[2, 4]
      %5 = ring_shift(%4) {mesh_axis=tp} : f32[2, 4]
      return "y"=%5
      )",
                 R"(
      %0 = input() {name="t", shape=[5, 2, 4]} : f32[5, 2, 4]
      %1 = all_gather(%0) {axis=1, group=2} : f32[5, 4, 4]
      %2 = reduce_scatter(%1) {axis=2, group=2} : f32[5, 4, 2]
      %3 = all_to_all(%2) {mesh_axis=tp, split_axis=1, join_axis=2, group=2} : f32[5, 2, 4]
      %4 = all_reduce(%3) : f32[5, 2, 4]
      %5 = ring_shift(%4) {mesh_axis=tp} : f32[5, 2, 4]
      return "y"=%5
      )",
                 /*tp=*/2);
}

TEST(BatchAxis, RefusesWhatHasNoRule) {
  expect_refused(R"(
      %0 = input() {name="t", shape=[4, 3]} : f32[4, 3]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = linear(%1, %0) : f32[2, 4] @ "block.0"
      return "y"=%2
      )",
                 "batch_axis: block.0: %2 = linear: its weight would differ along the new axis");
  expect_refused(R"(
      %0 = input() {name="t", shape=[4, 3]} : f32[4, 3]
      %1 = input() {name="i", dtype=i32, shape=[2]} : i32[2]
      %2 = gather(%0, %1) : f32[2, 3]
      return "y"=%2
      )",
                 "gather: its table would differ");
  expect_refused(R"(
      %0 = input() {name="t", dtype=i32} : i32[]
      %1 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %2 = dynamic_slice(%1, %0) {extent=1} : f32[1, 3]
      return "y"=%2
      )",
                 "dynamic_slice: its start would differ");
  expect_refused(R"(
      %0 = input() {name="t", shape=[1, 1, 1, 1, 1, 1, 1]} : f32[1, 1, 1, 1, 1, 1, 1]
      %1 = reshape(%0) {shape=[1, 1, 1, 1, 1, 1, 1, 1]} : f32[1, 1, 1, 1, 1, 1, 1, 1]
      return "y"=%1
      )",
                 "has no room for another axis");
}

TEST(BatchAxis, RefusesBadArguments) {
  const Graph g =
      parse(wrap("  %0 = input() {name=\"x\", shape=[2]} : f32[2]\n  return \"y\"=%0\n"));
  const std::vector<std::string> x{"x"};
  const std::vector<std::string> z{"z"};
  EXPECT_ERROR(batch_axis(g, 0, x), ErrorCode::InvalidArgument, "0 must be positive");
  EXPECT_ERROR(batch_axis(g, 2, z), ErrorCode::InvalidArgument, "graph 't' has no input 'z'");
}

}  // namespace
}  // namespace difflet::graph::passes
