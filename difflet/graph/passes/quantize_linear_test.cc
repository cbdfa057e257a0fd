#include "difflet/graph/passes/quantize_linear.h"

#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

// "a" is read by two Linears, "b" by one, "c" by a Linear and something else.
constexpr std::string_view kBody = R"(
    %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
    %1 = param "a" aliases("old_a") f32[4, 3] : f32[4, 3]
    %2 = param "bias" f32[4] : f32[4]
    %3 = linear(%0, %1, %2) {bias=true} : f32[2, 4] @ "m"
    %4 = linear(%0, %1) : f32[2, 4]
    %5 = param "b" f32[3, 4] split(dim=1, axis=tp) : f32[3, 4]
    %6 = linear(%3, %5) : f32[2, 3]
    %7 = param "c" f32[3, 3] : f32[3, 3]
    %8 = linear(%6, %7) : f32[2, 3]
    %9 = unary(%7) : f32[3, 3]
    return "y"=%4, "z"=%8, "w"=%9
    )";

Graph sample() { return parse(wrap(kBody)); }

TEST(QuantizeLinear, FindsWeightsThatOnlyLinearsRead) {
  EXPECT_EQ(linear_weights(sample()), (std::vector<std::string>{"a", "b"}));
}

TEST(QuantizeLinear, GivesEachLinearItsInt8Form) {
  const Graph q = quantize_linear(
      sample(), {{"a", {WeightQuant::W8A8, true}}, {"b", {WeightQuant::W8A16, false}}});
  EXPECT_EQ(print(q), wrap(indent(R"(
    %0 = input() {name="x", shape=[2, 3]} : f32[2, 3]
    %1 = param "bias" f32[4] : f32[4]
    %2 = param "a_int8" aliases("old_a_int8") i8[4, 3] : i8[4, 3] @ "m"
    %3 = param "a_scale" aliases("old_a_scale") f32[4] : f32[4] @ "m"
    %4 = param "a_smooth" aliases("old_a_smooth") f32[3] : f32[3] @ "m"
    %5 = linear(%0, %2, %3, %4, %1) {bias=true, quant=w8a8, smooth=true} : f32[2, 4] @ "m"
    %6 = linear(%0, %2, %3, %4) {quant=w8a8, smooth=true} : f32[2, 4]
    %7 = param "b_int8" i8[3, 4] split(dim=1, axis=tp) : i8[3, 4]
    %8 = param "b_scale" f32[3] : f32[3]
    %9 = linear(%5, %7, %8) {quant=w8a16} : f32[2, 3]
    %10 = param "c" f32[3, 3] : f32[3, 3]
    %11 = linear(%9, %10) : f32[2, 3]
    %12 = unary(%10) : f32[3, 3]
    return "y"=%6, "z"=%11, "w"=%12
    )")));
}

TEST(QuantizeLinear, CutsVectorsAsTheirAxisOfTheWeight) {
  const Graph q = quantize_linear(parse(wrap(R"(
    %0 = input() {name="x", shape=[2, 4]} : f32[2, 4]
    %1 = param "w" f32[6, 4] split(dim=0, axis=tp, segments=[2, 4]) : f32[3, 4]
    %2 = linear(%0, %1) : f32[2, 3]
    return "y"=%2
    )",
                                             2)),
                                  {{"w", {WeightQuant::W8A8, true}}});
  for (const ParamDecl& param : q.params()) {
    EXPECT_EQ(param.placement.split, param.name != "w_smooth") << param.name;
  }
  EXPECT_EQ(q.params()[1].placement.segments, (Dims{2, 4}));
}

TEST(QuantizeLinear, RefusesWhatIsNoWeightOfALinear) {
  const std::vector<std::string> none{"bias"};
  const LinearQuantPlan plan{{"c", {}}};
  EXPECT_ERROR((void)quantize_linear(sample(), plan), ErrorCode::InvalidArgument,
               "'c' is not the weight of a linear layer");
  EXPECT_ERROR((void)observe_linear(sample(), none), ErrorCode::InvalidArgument,
               "'bias' is not the weight of a linear layer");
}

TEST(QuantizeLinear, ObservesTheColumnsOfX) {
  const Graph g = observe_linear(sample(), std::vector<std::string>{"a", "b"});
  verify(g);
  ASSERT_EQ(g.outputs().size(), 5U);
  EXPECT_EQ(g.outputs()[3].name, "a");
  EXPECT_EQ(g.node(g.outputs()[3].node).type, (Type{DType::F32, Shape{3}}));
  // Both Linears of "a" count.
  EXPECT_EQ(std::get<Binary>(g.node(g.outputs()[3].node).op).kind, BinaryKind::Max);
  EXPECT_EQ(g.node(g.outputs()[4].node).type, (Type{DType::F32, Shape{4}}));
}

TEST(QuantizeLinear, ComparesBothFormsOnTheSameX) {
  const Graph g = compare_linear(sample(), {{"a", {WeightQuant::W8A8, false}}});
  verify(g);
  ASSERT_EQ(g.outputs().size(), 4U);
  EXPECT_EQ(g.node(g.outputs()[3].node).type, (Type{DType::F32, Shape{2}}));
  const std::vector<std::string> weights = linear_weights(g);
  EXPECT_NE(std::ranges::find(weights, "a"), weights.end());
}

}  // namespace
}  // namespace difflet::graph::passes
