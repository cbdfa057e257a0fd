#include "difflet/graph/passes/split_bindings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/graph/passes/passes.h"
#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SplitGraph split(std::string_view body) {
  return split_bindings(parse(wrap(body)), {.schedule_capacity = 3});
}

void expect_program(const std::optional<Graph>& graph, std::string_view name,
                    std::string_view body) {
  ASSERT_TRUE(graph);
  EXPECT_EQ(print(*graph), wrap(indent(body), 1, fmt::format("t/{}", name)));
  EXPECT_NO_THROW(verify(*graph));
}

// A modulated norm as models write it, between text, timestep and latents.
constexpr std::string_view kModulated = R"(
      %0 = input() {name="x", shape=[1, 40, 4]} : f32[1, 40, 4]
      %1 = input() {name="t", shape=[1, 4], binding=schedule} : f32[1, 4]
      %2 = input() {name="text", shape=[1, 20, 4], binding=request} : f32[1, 20, 4]
      %3 = param "embed.weight" f32[4, 4] : f32[4, 4]
      %4 = param "mod.weight" f32[8, 4] : f32[8, 4]
      %5 = linear(%2, %3) : f32[1, 20, 4]
      %6 = linear(%1, %4) : f32[1, 8] @ "b.0"
      %7 = reshape(%6) {shape=[1, 1, 8]} : f32[1, 1, 8] @ "b.0"
      %8 = slice(%7) {axis=2, limit=4} : f32[1, 1, 4] @ "b.0"
      %9 = slice(%7) {axis=2, start=4, limit=8} : f32[1, 1, 4] @ "b.0"
      %10 = constant() {value=f32[](1)} : f32[] @ "b.0"
      %11 = binary(%10, %8) : f32[1, 1, 4] @ "b.0"
      %12 = layer_norm(%5) : f32[1, 20, 4] @ "b.0"
      %13 = binary(%11, %12) {kind=mul} : f32[1, 20, 4] @ "b.0"
      %14 = binary(%13, %9) : f32[1, 20, 4] @ "b.0"
      %15 = concat(%14, %0) {axis=1} : f32[1, 60, 4]
      return "y"=%15
      )";

TEST(SplitBindings, AGraphWithoutStepsStaysWhole) {
  constexpr std::string_view kEncoder = R"(
      %0 = input() {name="text", shape=[1, 20, 4], binding=request} : f32[1, 20, 4]
      %1 = param "embed.weight" f32[4, 4] : f32[4, 4]
      %2 = linear(%0, %1) : f32[1, 20, 4]
      return "y"=%2
      )";
  const SplitGraph s = split(kEncoder);
  EXPECT_FALSE(s.request);
  EXPECT_FALSE(s.schedule);
  EXPECT_EQ(print(s.step), print(parse(wrap(kEncoder))));
  EXPECT_THAT(s.notes, IsEmpty());
}

TEST(SplitBindings, WorkMovesAndWhatKernelsFuseStays) {
  const SplitGraph s = split(kModulated);
  EXPECT_EQ(s.capacity, 3);
  expect_program(s.request, "request", R"(
      %0 = input() {name="text", shape=[1, 20, 4], binding=request} : f32[1, 20, 4]
      %1 = param "embed.weight" f32[4, 4] : f32[4, 4]
      %2 = linear(%0, %1) : f32[1, 20, 4]
      return "request/embed.0"=%2
      )");
  expect_program(s.schedule, "schedule", R"(
      %0 = input() {name="t", shape=[3, 1, 4], binding=schedule} : f32[3, 1, 4]
      %1 = param "mod.weight" f32[8, 4] : f32[8, 4]
      %2 = linear(%0, %1) : f32[3, 1, 8] @ "b.0"
      return "schedule/mod.0"=%2
      )");
  expect_program(fuse_norm(s.step), "step", R"(
      %0 = input() {name="x", shape=[1, 40, 4]} : f32[1, 40, 4]
      %1 = input() {name="request/embed.0", shape=[1, 20, 4], binding=request} : f32[1, 20, 4]
      %2 = input() {name="schedule/mod.0", shape=[1, 8], binding=schedule} : f32[1, 8]
      %3 = reshape(%2) {shape=[1, 1, 8]} : f32[1, 1, 8] @ "b.0"
      %4 = slice(%3) {axis=2, limit=4} : f32[1, 1, 4] @ "b.0"
      %5 = slice(%3) {axis=2, start=4, limit=8} : f32[1, 1, 4] @ "b.0"
      %6 = layer_norm(%1, %4, %5) {modulated=true} : f32[1, 20, 4] @ "b.0"
      %7 = concat(%6, %0) {axis=1} : f32[1, 60, 4]
      return "y"=%7
      )");
}

TEST(SplitBindings, SaysWhatMovedAndWhatDidNot) {
  const SplitGraph s = split(kModulated);
  EXPECT_THAT(s.notes, ElementsAre("request: linear embed, 0.00064 MFLOP, 6.104e-05 MiB",
                                   "schedule: linear mod, 6.4e-05 MFLOP, 0.0001221 MiB",
                                   "step: mul b.0 stays: 20 rows a step, more than 16"));
  EXPECT_EQ(s.flops_saved, 2 * 20 * 4 * 4 + 2 * 4 * 8);
  EXPECT_EQ(s.weight_bytes_saved, 4U * (16 + 32));
}

TEST(SplitBindings, GatesStayWhereLinearFusesThem) {
  const SplitGraph s = split(R"(
      %0 = input() {name="x", shape=[1, 40, 4]} : f32[1, 40, 4]
      %1 = input() {name="t", shape=[1, 4], binding=schedule} : f32[1, 4]
      %2 = param "mod.weight" f32[4, 4] : f32[4, 4]
      %3 = param "out.weight" f32[4, 4] : f32[4, 4]
      %4 = linear(%1, %2) : f32[1, 4]
      %5 = reshape(%4) {shape=[1, 1, 4]} : f32[1, 1, 4]
      %6 = linear(%0, %3) : f32[1, 40, 4]
      %7 = binary(%5, %6) {kind=mul} : f32[1, 40, 4]
      %8 = binary(%0, %7) : f32[1, 40, 4]
      return "y"=%8
      )");
  EXPECT_FALSE(s.request);
  expect_program(fuse_linear(s.step), "step", R"(
      %0 = input() {name="x", shape=[1, 40, 4]} : f32[1, 40, 4]
      %1 = input() {name="schedule/mod.0", shape=[1, 4], binding=schedule} : f32[1, 4]
      %2 = param "out.weight" f32[4, 4] : f32[4, 4]
      %3 = reshape(%1) {shape=[1, 1, 4]} : f32[1, 1, 4]
      %4 = linear(%0, %2, %3, %0) {mul=true, residual=true} : f32[1, 40, 4]
      return "y"=%4
      )");
}

TEST(SplitBindings, NormsMoveUnlessTheirReadersFuseThem) {
  // Keys of the text, normed and not rotated: nothing fuses the norm with attention.
  const SplitGraph s = split(R"(
      %0 = input() {name="q", shape=[1, 3, 1, 4]} : f32[1, 3, 1, 4]
      %1 = input() {name="k", shape=[1, 2, 1, 4], binding=request} : f32[1, 2, 1, 4]
      %2 = param "norm_k.weight" f32[4] : f32[4]
      %3 = rms_norm(%1, %2) : f32[1, 2, 1, 4]
      %4 = attention(%0, %3, %3) : f32[1, 3, 1, 4]
      return "y"=%4
      )");
  expect_program(s.step, "step", R"(
      %0 = input() {name="q", shape=[1, 3, 1, 4]} : f32[1, 3, 1, 4]
      %1 = input() {name="request/norm_k.0", shape=[1, 2, 1, 4], binding=request} : f32[1, 2, 1, 4]
      %2 = attention(%0, %1, %1) : f32[1, 3, 1, 4]
      return "y"=%2
      )");
}

TEST(SplitBindings, NothingMovesWithoutWork) {
  const SplitGraph s = split(R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = input() {name="t", shape=[2], binding=schedule} : f32[2]
      %2 = constant() {value=f32[](2)} : f32[]
      %3 = binary(%1, %2) {kind=mul} : f32[2]
      %4 = binary(%0, %3) : f32[2]
      return "y"=%4
      )");
  EXPECT_FALSE(s.request);
  EXPECT_FALSE(s.schedule);
  EXPECT_THAT(s.notes, IsEmpty());
  EXPECT_EQ(s.flops_saved, 0);
  expect_program(s.step, "step", R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = input() {name="t", shape=[2], binding=schedule} : f32[2]
      %2 = constant() {value=f32[](2)} : f32[]
      %3 = binary(%1, %2) {kind=mul} : f32[2]
      %4 = binary(%0, %3) : f32[2]
      return "y"=%4
      )");
}

TEST(SplitBindings, OutputsPassThroughTheStep) {
  const SplitGraph s = split(R"(
      %0 = input() {name="r", shape=[2], binding=request} : f32[2]
      %1 = unary(%0) {kind=exp} : f32[2]
      %2 = param "w" f32[2] : f32[2]
      %3 = unary(%2) {kind=exp} : f32[2]
      %4 = input() {name="x", shape=[2]} : f32[2]
      return "raw"=%0, "exp"=%1, "weight"=%3
      )");
  expect_program(s.request, "request", R"(
      %0 = input() {name="r", shape=[2], binding=request} : f32[2]
      %1 = unary(%0) {kind=exp} : f32[2]
      %2 = param "w" f32[2] : f32[2]
      %3 = unary(%2) {kind=exp} : f32[2]
      return "request/exp.0"=%1, "request/exp.1"=%3
      )");
  expect_program(s.step, "step", R"(
      %0 = input() {name="r", shape=[2], binding=request} : f32[2]
      %1 = input() {name="request/exp.0", shape=[2], binding=request} : f32[2]
      %2 = input() {name="request/exp.1", shape=[2], binding=request} : f32[2]
      return "raw"=%0, "exp"=%1, "weight"=%2
      )");
}

TEST(SplitBindings, NamesAvoidTheGraphsInputs) {
  const SplitGraph s = split(R"(
      %0 = input() {name="request/exp.0", shape=[2], binding=request} : f32[2]
      %1 = unary(%0) {kind=exp} : f32[2]
      %2 = input() {name="x", shape=[2]} : f32[2]
      return "y"=%1
      )");
  ASSERT_TRUE(s.request);
  EXPECT_EQ(s.request->outputs()[0].name, "request/exp.1");
}

TEST(SplitBindings, WhatHasNoBatchRuleStaysWithItsReaders) {
  const SplitGraph s = split(R"(
      %0 = input() {name="i", dtype=i32, shape=[], binding=schedule} : i32[]
      %1 = param "table" f32[9, 4] : f32[9, 4]
      %2 = dynamic_slice(%1, %0) {extent=1} : f32[1, 4] @ "time"
      %3 = unary(%2) {kind=exp} : f32[1, 4] @ "time"
      return "y"=%3
      )");
  EXPECT_FALSE(s.schedule);
  EXPECT_THAT(s.notes, ElementsAre("step: dynamic_slice time stays: its start would "
                                   "differ along the new axis"));
}

TEST(SplitBindings, MergesDuplicatesFirst) {
  const SplitGraph s = split(R"(
      %0 = input() {name="t", shape=[1, 4], binding=schedule} : f32[1, 4]
      %1 = activate(%0) : f32[1, 4] @ "b.0"
      %2 = activate(%0) : f32[1, 4] @ "b.1"
      %3 = unary(%0) {kind=sin} : f32[1, 4]
      return "y"=%1, "z"=%2
      )");
  ASSERT_TRUE(s.schedule);
  EXPECT_EQ(s.schedule->nodes().size(), 2U);
  EXPECT_EQ(s.schedule->outputs().size(), 1U);
}

TEST(SplitBindings, RefusesACapacityBelowOne) {
  EXPECT_ERROR(split_bindings(Graph("t"), {.schedule_capacity = 0}), ErrorCode::InvalidArgument,
               "capacity 0 must be positive");
}

}  // namespace
}  // namespace difflet::graph::passes
