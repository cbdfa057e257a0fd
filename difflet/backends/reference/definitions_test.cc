// Composite ops against values worked out by hand or from their formulas.

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>

#include "difflet/backends/reference/testing.h"

namespace difflet::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  EXPECT_THAT(got, Pointwise(FloatNear(2e-6F), expected));
}

// y = op(x), x of shape [2, 2].
std::vector<float> of_square(std::string_view op, std::vector<float> x) {
  return run(fmt::format(R"(%0 = input() {{name="x", shape=[2, 2]}} : f32[2, 2]
                            %1 = {} : f32[2, 2]
                            return "y"=%1)",
                         op),
             {floats({2, 2}, std::move(x))});
}

TEST(Definition, Activations) {
  const std::vector<float> x{-3, -0.5F, 0, 1};
  const auto expect = [&](std::string_view name, const auto& f) {
    std::vector<float> expected;
    expected.reserve(x.size());
    for (const float v : x) {
      expected.push_back(static_cast<float>(f(double{v})));
    }
    SCOPED_TRACE(name);
    expect_near(of_square(fmt::format("activate(%0) {{act={}}}", name), x), expected);
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  expect("gelu_erf", [](double v) { return v * std::erfc(-v / std::numbers::sqrt2) / 2; });
  expect("gelu_tanh", [](double v) {
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  });
  expect("quick_gelu", [&](double v) { return v * sigmoid(1.702 * v); });
  expect("silu", [&](double v) { return v * sigmoid(v); });
  expect("relu", [](double v) { return v > 0 ? v : 0; });
}

TEST(Definition, LayerNorm) {
  // Rows [1, 3] and [2, 2]: mean 2, variance 1 and 0; eps 3 halves the first.
  expect_near(of_square("layer_norm(%0) {eps=3}", {1, 3, 2, 2}), {-0.5F, 0.5F, 0, 0});
}

TEST(Definition, LayerNormAppliesWeightsThenModulation) {
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2]} : f32[1, 2]
                        %1 = input() {name="w", shape=[2]} : f32[2]
                        %2 = input() {name="b", shape=[2]} : f32[2]
                        %3 = layer_norm(%0, %1, %2, %2, %1) {eps=3, affine=true, modulated=true} : f32[1, 2]
                        return "y"=%3)",
                     {floats({1, 2}, {1, 3}), floats({2}, {2, 4}), floats({2}, {10, 20})});
  // (-0.5 * 2 + 10) * 11 + 2, (0.5 * 4 + 20) * 21 + 4
  expect_near(y, {101, 466});
}

TEST(Definition, RmsNorm) {
  // mean of squares 12.5, plus eps 3.5: divided by 4.
  expect_near(of_square("rms_norm(%0) {eps=3.5, weight=false}", {3, 4, 0, 5}),
              {0.75F, 1, 0, 1.25F});
}

TEST(Definition, GroupNormTakesItsStatisticsOverPixelsAndChannelsOfAGroup) {
  // Two pixels, two groups of one channel: channel 0 is [1, 3], channel 1 is [2, 2].
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2, 2]} : f32[1, 2, 2]
                        %1 = input() {name="w", shape=[2]} : f32[2]
                        %2 = group_norm(%0, %1, %1) {groups=2, eps=3, act=relu} : f32[1, 2, 2]
                        return "y"=%2)",
                     {floats({1, 2, 2}, {1, 2, 3, 2}), floats({2}, {4, 7})});
  expect_near(y, {2, 7, 6, 7});
}

TEST(Definition, GroupStatisticsAreMeanAndMeanSquaredDeviation) {
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2, 2]} : f32[1, 2, 2]
                        %1 = group_statistics(%0) {groups=2} : f32[1, 2, 4]
                        return "y"=%1)",
                     {floats({1, 2, 2}, {1, 2, 5, 2})});
  expect_near(y, {3, 4, 0, 0, 2, 0, 0, 0});
}

TEST(Definition, GroupNormTakesGivenStatistics) {
  // Two groups of one channel, means 1 and 1.5 + 0.5, variances 0.5 + 0.5 and 6 plus eps 3.
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2, 2]} : f32[1, 2, 2]
                        %1 = input() {name="w", shape=[2]} : f32[2]
                        %2 = input() {name="s", shape=[1, 2, 4]} : f32[1, 2, 4]
                        %3 = group_norm(%0, %1, %1, %2) {groups=2, eps=3, statistics=true} : f32[1, 2, 2]
                        return "y"=%3)",
                     {floats({1, 2, 2}, {1, 2, 3, 5}), floats({2}, {4, 6}),
                      floats({1, 2, 4}, {1, 0.5, 0, 0.5, 1.5, 6, 0.5, 0})});
  expect_near(y, {4, 6, 8, 12});
}

TEST(Definition, LinearIsResidualPlusGateTimesActivation) {
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2]} : f32[1, 2]
             %1 = input() {name="w", shape=[2, 2]} : f32[2, 2]
             %2 = input() {name="b", shape=[2]} : f32[2]
             %3 = input() {name="m", shape=[1, 2]} : f32[1, 2]
             %4 = linear(%0, %1, %2, %3, %3) {bias=true, act=relu, mul=true, residual=true} : f32[1, 2]
             return "y"=%4)",
                     {floats({1, 2}, {1, 2}), floats({2, 2}, {1, 1, -1, -1}), floats({2}, {10, 1}),
                      floats({1, 2}, {3, 5})});
  EXPECT_THAT(y, ElementsAre(3 + 3 * 13, 5));
}

TEST(Definition, RopeNormsBeforeItRotates) {
  // x / rms = [0.75, 1] with eps 3.5, times the weight [4, 3]: [3, 3]; a quarter turn.
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 1, 1, 2]} : f32[1, 1, 1, 2]
                        %1 = input() {name="c", shape=[1, 1]} : f32[1, 1]
                        %2 = input() {name="s", shape=[1, 1]} : f32[1, 1]
                        %3 = input() {name="w", shape=[2]} : f32[2]
                        %4 = rope(%0, %1, %2, %3) {norm=true, eps=3.5} : f32[1, 1, 1, 2]
                        return "y"=%4)",
                     {floats({1, 1, 1, 2}, {3, 4}), floats({1, 1}, {0}), floats({1, 1}, {1}),
                      floats({2}, {4, 3})});
  expect_near(y, {-3, 3});
}

TEST(Definition, UpsampleRepeatsPixels) {
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 1, 2, 1]} : f32[1, 1, 2, 1]
                        %1 = upsample(%0) : f32[1, 2, 4, 1]
                        return "y"=%1)",
                     {floats({1, 1, 2, 1}, {1, 2})});
  EXPECT_THAT(y, ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
}

TEST(Definition, AttentionAddsItsBiasAfterTheScale) {
  // Scores 1 * 2 * 0.5 + bias: 1 + ln 3 and 1, weights 3/4 and 1/4.
  const auto y = run(R"(%0 = input() {name="q", shape=[1, 1, 1, 1]} : f32[1, 1, 1, 1]
                        %1 = input() {name="k", shape=[1, 2, 1, 1]} : f32[1, 2, 1, 1]
                        %2 = input() {name="v", shape=[1, 2, 1, 1]} : f32[1, 2, 1, 1]
                        %3 = input() {name="b", shape=[1, 1, 1, 2]} : f32[1, 1, 1, 2]
                        %4 = attention(%0, %1, %2, %3) {scale=0.5, bias=true} : f32[1, 1, 1, 1]
                        return "y"=%4)",
                     {floats({1, 1, 1, 1}, {1}), floats({1, 2, 1, 1}, {2, 2}),
                      floats({1, 2, 1, 1}, {4, 8}), floats({1, 1, 1, 2}, {std::log(3.0F), 0})});
  expect_near(y, {5});
}

}  // namespace
}  // namespace difflet::reference
