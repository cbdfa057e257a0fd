#include "difflet/graph/passes/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

// pass(before), printed, is `after`.
void expect_pass(Graph (*pass)(const Graph&), std::string_view before, std::string_view after,
                 int tp = 1) {
  EXPECT_EQ(print(pass(parse(wrap(before, tp)))), wrap(indent(after), tp));
}

void expect_unchanged(Graph (*pass)(const Graph&), std::string_view body) {
  expect_pass(pass, body, body);
}

// ---- eliminate_dead ------------------------------------------------------------------------------

TEST(EliminateDead, KeepsInputsAndDropsUnreadParameters) {
  expect_pass(eliminate_dead, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = input() {name="unread", shape=[2]} : f32[2]
      %2 = param "w" f32[2] : f32[2]
      %3 = unary(%0) : f32[2]
      %4 = binary(%3, %2) : f32[2]
      return "y"=%3
      )",
              R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = input() {name="unread", shape=[2]} : f32[2]
      %2 = unary(%0) : f32[2]
      return "y"=%2
      )");
}

TEST(EliminateDead, KeepsScopes) {
  expect_unchanged(eliminate_dead, R"(
      %0 = param "b.w" aliases("b.v") f32[2] : f32[2] @ "b"
      %1 = unary(%0) {kind=exp} : f32[2] @ "b.act"
      return "y"=%1
      )");
}

// ---- merge_common --------------------------------------------------------------------------------

TEST(MergeCommon, MergesEqualOpsOverEqualOperands) {
  expect_pass(merge_common, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = constant() {value=f32[](1)} : f32[]
      %2 = binary(%0, %1) : f32[2]
      %3 = constant() {value=f32[](1)} : f32[]
      %4 = binary(%0, %3) : f32[2]
      %5 = binary(%2, %4) {kind=mul} : f32[2]
      return "y"=%5
      )",
              R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = constant() {value=f32[](1)} : f32[]
      %2 = binary(%0, %1) : f32[2]
      %3 = binary(%2, %2) {kind=mul} : f32[2]
      return "y"=%3
      )");
}

TEST(MergeCommon, TellsAttributesApart) {
  expect_unchanged(merge_common, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = unary(%0) {kind=sin} : f32[2]
      %2 = unary(%0) {kind=cos} : f32[2]
      %3 = binary(%1, %2) : f32[2]
      return "y"=%3
      )");
}

// ---- simplify ------------------------------------------------------------------------------------

TEST(Simplify, FoldsReshapesAndTransposes) {
  expect_pass(simplify, R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = reshape(%0) {shape=[6]} : f32[6]
      %2 = reshape(%1) {shape=[3, 2]} : f32[3, 2]
      %3 = transpose(%2) {permutation=[1, 0]} : f32[2, 3]
      %4 = transpose(%3) {permutation=[1, 0]} : f32[3, 2]
      %5 = reshape(%4) {shape=[2, 3]} : f32[2, 3]
      return "y"=%5, "z"=%2
      )",
              R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = reshape(%0) {shape=[3, 2]} : f32[3, 2]
      return "y"=%0, "z"=%1
      )");
}

TEST(Simplify, ComposesTransposes) {
  expect_pass(simplify, R"(
      %0 = input() {name="x", shape=[2, 3, 4]} : f32[2, 3, 4]
      %1 = transpose(%0) {permutation=[1, 2, 0]} : f32[3, 4, 2]
      %2 = transpose(%1) {permutation=[1, 0, 2]} : f32[4, 3, 2]
      return "y"=%2
      )",
              R"(
      %0 = input() {name="x", shape=[2, 3, 4]} : f32[2, 3, 4]
      %1 = transpose(%0) {permutation=[2, 1, 0]} : f32[4, 3, 2]
      return "y"=%1
      )");
}

TEST(Simplify, DropsConversionsThatLoseNothing) {
  expect_pass(simplify, R"(
      %0 = input() {name="x", dtype=bf16, shape=[2]} : bf16[2]
      %1 = convert(%0) : f32[2]
      %2 = convert(%1) {dtype=bf16} : bf16[2]
      %3 = convert(%2) {dtype=bf16} : bf16[2]
      return "y"=%3
      )",
              R"(
      %0 = input() {name="x", dtype=bf16, shape=[2]} : bf16[2]
      return "y"=%0
      )");
  expect_unchanged(simplify, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = convert(%0) {dtype=bf16} : bf16[2]
      %2 = convert(%1) : f32[2]
      return "y"=%2
      )");
}

TEST(Simplify, DropsScalarIdentitiesThatKeepTheType) {
  expect_pass(simplify, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = constant() {value=f32[](0)} : f32[]
      %2 = constant() {value=f32[1](1)} : f32[1]
      %3 = binary(%1, %0) : f32[2]
      %4 = binary(%3, %2) {kind=mul} : f32[2]
      %5 = binary(%4, %2) {kind=div} : f32[2]
      %6 = binary(%5, %1) {kind=sub} : f32[2]
      return "y"=%6
      )",
              R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      return "y"=%0
      )");
  expect_unchanged(simplify, R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = constant() {value=f32[1, 1](0)} : f32[1, 1]
      %2 = binary(%0, %1) : f32[1, 2]
      %3 = constant() {value=f32[](1)} : f32[]
      %4 = binary(%3, %2) {kind=div} : f32[1, 2]
      return "y"=%4
      )");
}

TEST(Simplify, DropsOpsThatMoveNothing) {
  expect_pass(simplify, R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = slice(%0) {limit=2} : f32[2, 3]
      %2 = concat(%1) : f32[2, 3]
      %3 = pad(%2) : f32[2, 3]
      %4 = broadcast(%3) {shape=[2, 3]} : f32[2, 3]
      %5 = all_reduce(%4) {mesh_axis=cp} : f32[2, 3]
      %6 = all_reduce(%5) : f32[2, 3]
      return "y"=%6
      )",
              R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = all_reduce(%0) : f32[2, 3]
      return "y"=%1
      )",
              /*tp=*/2);
}

// ---- expand_composites ---------------------------------------------------------------------------

class RefusesActivations final : public Target {
 public:
  std::string_view name() const noexcept override { return "test"; }
  std::optional<Refusal> claims(const Op& op, std::span<const Type>) const override {
    if (std::holds_alternative<Activate>(op)) {
      return Refusal{"activate: no kernel"};
    }
    return std::nullopt;
  }
};

TEST(ExpandComposites, ExpandsWhatTheTargetRefuses) {
  const Graph graph = parse(wrap(R"(
      %0 = input() {name="x", dtype=bf16, shape=[2]} : bf16[2]
      %1 = softmax(%0) : bf16[2]
      %2 = activate(%1) : bf16[2] @ "act"
      return "y"=%2
      )"));
  EXPECT_EQ(print(expand_composites(graph, RefusesActivations())), wrap(indent(R"(
      %0 = input() {name="x", dtype=bf16, shape=[2]} : bf16[2]
      %1 = softmax(%0) : bf16[2]
      %2 = convert(%1) : f32[2] @ "act"
      %3 = unary(%2) {kind=sigmoid} : f32[2] @ "act"
      %4 = binary(%2, %3) {kind=mul} : f32[2] @ "act"
      %5 = convert(%4) {dtype=bf16} : bf16[2] @ "act"
      return "y"=%5
      )")));
}

// ---- fuse_linear ---------------------------------------------------------------------------------

TEST(FuseLinear, TakesBiasActivationGateAndResidual) {
  expect_pass(fuse_linear, R"(
      %0 = input() {name="x", shape=[1, 2, 3]} : f32[1, 2, 3]
      %1 = input() {name="gate", shape=[1, 1, 4]} : f32[1, 1, 4]
      %2 = input() {name="r", shape=[1, 2, 4]} : f32[1, 2, 4]
      %3 = param "w" f32[4, 3] : f32[4, 3]
      %4 = param "b" f32[4] : f32[4]
      %5 = linear(%0, %3) : f32[1, 2, 4]
      %6 = binary(%5, %4) : f32[1, 2, 4]
      %7 = activate(%6) {act=gelu_tanh} : f32[1, 2, 4]
      %8 = binary(%1, %7) {kind=mul} : f32[1, 2, 4]
      %9 = binary(%2, %8) : f32[1, 2, 4]
      return "y"=%9
      )",
              R"(
      %0 = input() {name="x", shape=[1, 2, 3]} : f32[1, 2, 3]
      %1 = input() {name="gate", shape=[1, 1, 4]} : f32[1, 1, 4]
      %2 = input() {name="r", shape=[1, 2, 4]} : f32[1, 2, 4]
      %3 = param "w" f32[4, 3] : f32[4, 3]
      %4 = param "b" f32[4] : f32[4]
      %5 = linear(%0, %3, %4, %1, %2) {bias=true, act=gelu_tanh, mul=true, residual=true} : f32[1, 2, 4]
      return "y"=%5
      )");
}

TEST(FuseLinear, GatedUnitMultipliesIntoTheSecondProduct) {
  expect_pass(fuse_linear, R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = param "w0" f32[4, 3] : f32[4, 3]
      %2 = param "w1" f32[4, 3] : f32[4, 3]
      %3 = linear(%0, %1) : f32[2, 4]
      %4 = activate(%3) : f32[2, 4]
      %5 = linear(%0, %2) : f32[2, 4]
      %6 = binary(%4, %5) {kind=mul} : f32[2, 4]
      return "y"=%6
      )",
              R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = param "w0" f32[4, 3] : f32[4, 3]
      %2 = param "w1" f32[4, 3] : f32[4, 3]
      %3 = linear(%0, %1) {act=silu} : f32[2, 4]
      %4 = linear(%0, %2, %3) {mul=true} : f32[2, 4]
      return "y"=%4
      )");
}

TEST(FuseLinear, LeavesProductsWithTwoReaders) {
  expect_unchanged(fuse_linear, R"(
      %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
      %1 = param "w" f32[4, 3] : f32[4, 3]
      %2 = linear(%0, %1) : f32[2, 4]
      %3 = activate(%2) : f32[2, 4]
      return "y"=%3, "raw"=%2
      )");
}

TEST(FuseLinear, LeavesResultsThatBroadcastingWidens) {
  expect_unchanged(fuse_linear, R"(
      %0 = input() {name="x", shape=[1, 3]} : f32[1, 3]
      %1 = input() {name="r", shape=[2, 4]} : f32[2, 4]
      %2 = param "w" f32[4, 3] : f32[4, 3]
      %3 = linear(%0, %2) : f32[1, 4]
      %4 = binary(%1, %3) : f32[2, 4]
      %5 = binary(%1, %4) {kind=mul} : f32[2, 4]
      return "y"=%5
      )");
}

TEST(FuseLinear, KeepsTheOrderOfActivationAndResidual) {
  expect_pass(fuse_linear, R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = param "w" f32[4, 4] : f32[4, 4]
      %2 = linear(%0, %1) : f32[2, 4]
      %3 = binary(%2, %0) : f32[2, 4]
      %4 = activate(%3) : f32[2, 4]
      %5 = binary(%4, %0) {kind=mul} : f32[2, 4]
      return "y"=%5
      )",
              R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = param "w" f32[4, 4] : f32[4, 4]
      %2 = linear(%0, %1, %0) {residual=true} : f32[2, 4]
      %3 = activate(%2) : f32[2, 4]
      %4 = binary(%3, %0) {kind=mul} : f32[2, 4]
      return "y"=%4
      )");
}

// ---- fuse_norm -----------------------------------------------------------------------------------

constexpr std::string_view kModulated = R"(
      %0 = input() {name="x", shape=[1, 2, 4]} : f32[1, 2, 4]
      %1 = input() {name="scale", shape=[1, 1, 4]} : f32[1, 1, 4]
      %2 = input() {name="shift", shape=[4]} : f32[4]
      %3 = layer_norm(%0, %1, %2) {modulated=true} : f32[1, 2, 4]
      return "y"=%3
      )";

TEST(FuseNorm, FindsTheModulationInAnyOrder) {
  for (const std::string_view one_plus : {"%3, %1", "%1, %3"}) {
    for (const std::string_view product : {"%4, %5", "%5, %4"}) {
      for (const std::string_view sum : {"%6, %2", "%2, %6"}) {
        expect_pass(fuse_norm,
                    fmt::format(R"(
      %0 = input() {{name="x", shape=[1, 2, 4]}} : f32[1, 2, 4]
      %1 = input() {{name="scale", shape=[1, 1, 4]}} : f32[1, 1, 4]
      %2 = input() {{name="shift", shape=[4]}} : f32[4]
      %3 = constant() {{value=f32[](1)}} : f32[]
      %4 = binary({}) : f32[1, 1, 4]
      %5 = layer_norm(%0) : f32[1, 2, 4]
      %6 = binary({}) {{kind=mul}} : f32[1, 2, 4]
      %7 = binary({}) : f32[1, 2, 4]
      return "y"=%7
      )",
                                one_plus, product, sum),
                    kModulated);
      }
    }
  }
}

TEST(FuseNorm, KeepsTheAffinePart) {
  expect_pass(fuse_norm, R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = param "w" f32[4] : f32[4]
      %2 = param "b" f32[4] : f32[4]
      %3 = constant() {value=f32[](1)} : f32[]
      %4 = binary(%3, %1) : f32[4]
      %5 = layer_norm(%0, %1, %2) {eps=0.1, affine=true} : f32[2, 4]
      %6 = binary(%4, %5) {kind=mul} : f32[2, 4]
      %7 = binary(%6, %2) : f32[2, 4]
      return "y"=%7
      )",
              R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = param "w" f32[4] : f32[4]
      %2 = param "b" f32[4] : f32[4]
      %3 = layer_norm(%0, %1, %2, %1, %2) {eps=0.1, affine=true, modulated=true} : f32[2, 4]
      return "y"=%3
      )");
}

TEST(FuseNorm, LeavesOtherProducts) {
  // 2 + scale is no modulation; a norm with two readers stays.
  expect_unchanged(fuse_norm, R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = input() {name="scale", shape=[4]} : f32[4]
      %2 = constant() {value=f32[](2)} : f32[]
      %3 = binary(%2, %1) : f32[4]
      %4 = layer_norm(%0) : f32[2, 4]
      %5 = binary(%3, %4) {kind=mul} : f32[2, 4]
      %6 = binary(%5, %1) : f32[2, 4]
      return "y"=%6
      )");
  expect_unchanged(fuse_norm, R"(
      %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
      %1 = input() {name="scale", shape=[4]} : f32[4]
      %2 = constant() {value=f32[](1)} : f32[]
      %3 = binary(%2, %1) : f32[4]
      %4 = layer_norm(%0) : f32[2, 4]
      %5 = binary(%3, %4) {kind=mul} : f32[2, 4]
      %6 = binary(%5, %1) : f32[2, 4]
      return "y"=%6, "norm"=%4
      )");
}

TEST(FuseNorm, PutsTheRmsNormIntoRope) {
  expect_pass(fuse_norm, R"(
      %0 = input() {name="x", shape=[1, 2, 3, 4]} : f32[1, 2, 3, 4]
      %1 = input() {name="cos", shape=[2, 2]} : f32[2, 2]
      %2 = input() {name="sin", shape=[2, 2]} : f32[2, 2]
      %3 = param "w" f32[4] : f32[4]
      %4 = rms_norm(%0, %3) {eps=0.5} : f32[1, 2, 3, 4]
      %5 = rope(%4, %1, %2) {pairs=half} : f32[1, 2, 3, 4]
      return "y"=%5
      )",
              R"(
      %0 = input() {name="x", shape=[1, 2, 3, 4]} : f32[1, 2, 3, 4]
      %1 = input() {name="cos", shape=[2, 2]} : f32[2, 2]
      %2 = input() {name="sin", shape=[2, 2]} : f32[2, 2]
      %3 = param "w" f32[4] : f32[4]
      %4 = rope(%0, %1, %2, %3) {pairs=half, norm=true, eps=0.5} : f32[1, 2, 3, 4]
      return "y"=%4
      )");
}

TEST(FuseNorm, PutsTheActivationIntoGroupNorm) {
  expect_pass(fuse_norm, R"(
      %0 = input() {name="x", shape=[1, 2, 2, 4]} : f32[1, 2, 2, 4]
      %1 = param "w" f32[4] : f32[4]
      %2 = param "b" f32[4] : f32[4]
      %3 = group_norm(%0, %1, %2) {groups=2} : f32[1, 2, 2, 4]
      %4 = activate(%3) : f32[1, 2, 2, 4]
      return "y"=%4
      )",
              R"(
      %0 = input() {name="x", shape=[1, 2, 2, 4]} : f32[1, 2, 2, 4]
      %1 = param "w" f32[4] : f32[4]
      %2 = param "b" f32[4] : f32[4]
      %3 = group_norm(%0, %1, %2) {groups=2, act=silu} : f32[1, 2, 2, 4]
      return "y"=%3
      )");
}

}  // namespace
}  // namespace difflet::graph::passes
