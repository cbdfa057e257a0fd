#include "difflet/compile/quant_report.h"

#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"
#include "difflet/graph/graph.h"

namespace difflet::compile {
namespace {

using graph::WeightQuant;

// Two blocks of one layer each, a layer that is not quantised, and a sum past the blocks.
constexpr const char* kGraph = R"(graph "toy" mesh(dp=1, cfg=1, cp=1, tp=1) {
  %0 = input() {name="x", shape=[3, 2]} : f32[3, 2]
  %1 = param "a" f32[2, 2] : f32[2, 2]
  %2 = linear(%0, %1) : f32[3, 2] @ "blocks.0.layer"
  %3 = param "b" f32[2, 2] : f32[2, 2]
  %4 = linear(%2, %3) : f32[3, 2] @ "blocks.1.layer"
  %5 = param "c" f32[2, 2] : f32[2, 2]
  %6 = linear(%4, %5) : f32[3, 2] @ "blocks.1.other"
  %7 = binary(%6, %0) {kind=add} : f32[3, 2]
  return "y"=%7
}
)";

// Every weight is the identity; the int8 form of "a" gives 1.25 times it, that of "b" 0.5 times it.
class Identity final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    if (param.name.ends_with("_int8")) {
      HostTensor values(DType::I8, param.shape);
      values.mutable_as<std::int8_t>()[0] = 64;
      values.mutable_as<std::int8_t>()[3] = 64;
      return values;
    }
    if (param.name.ends_with("_scale")) {
      const float factor = param.name == "a_scale" ? 1.25F : 0.5F;
      const std::vector<float> values{factor / 64, factor / 64};
      return HostTensor::from(param.shape, std::span<const float>(values));
    }
    const std::vector<float> values{1, 0, 0, 1};
    return HostTensor::from(param.shape, std::span<const float>(values));
  }
};

NamedTensors sample(float scale) {
  const std::vector<float> values{scale, -2 * scale, 0, scale, 3 * scale, 0};
  return {{"x", HostTensor::from({3, 2}, std::span<const float>(values))}};
}

class QuantReport : public ::testing::Test {
 protected:
  std::vector<LayerError> layers(const graph::passes::LinearQuantPlan& plan) {
    std::vector<LayerError> rows;
    measure_layers(what(plan), context_, [&](const LayerError& row) { rows.push_back(row); });
    return rows;
  }
  std::vector<OutputError> outputs(const graph::passes::LinearQuantPlan& plan) {
    std::vector<OutputError> rows;
    measure_outputs(what(plan), context_, [&](const OutputError& row) { rows.push_back(row); });
    return rows;
  }
  QuantMeasurement what(const graph::passes::LinearQuantPlan& plan) {
    return {.graph = &graph_,
            .plan = &plan,
            .weights = &weights_,
            .samples = samples_,
            .backend = &backends::find("reference"),
            .options = {}};
  }

  Log log_{LogLevel::Off};
  ThreadPool threads_{2};
  Context context_{.log = log_, .threads = threads_};
  graph::Graph graph_ = graph::parse(kGraph);
  Identity weights_;
  std::vector<NamedTensors> samples_{sample(1), sample(100)};
};

TEST_F(QuantReport, EachLayerIsMeasuredOnTheUnquantisedInput) {
  const auto rows =
      layers({{"a", {WeightQuant::W8A16, false}}, {"b", {WeightQuant::W8A16, false}}});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].weight, "a");
  EXPECT_NEAR(rows[0].relative, 0.25, 1e-6);
  EXPECT_EQ(rows[0].quant.mode, WeightQuant::W8A16);
  EXPECT_FALSE(rows[0].within_bound());
  EXPECT_EQ(rows[1].weight, "b");
  EXPECT_NEAR(rows[1].relative, 0.5, 1e-6) << "the error of a does not reach b";
}

TEST_F(QuantReport, TheErrorOfAllLayersPassesOn) {
  const auto rows =
      outputs({{"a", {WeightQuant::W8A16, false}}, {"b", {WeightQuant::W8A16, false}}});
  ASSERT_GE(rows.size(), 3U);
  EXPECT_EQ(rows[0].block, "blocks.0");
  EXPECT_NEAR(rows[0].relative, 0.25, 1e-6);
  EXPECT_NEAR(rows[0].cosine, 1, 1e-9) << "a factor turns nothing";
  EXPECT_NEAR(rows[1].relative, 1 - 0.625, 1e-6);
  EXPECT_EQ(rows.back().output, "y");
  EXPECT_NEAR(rows.back().relative, 0.375 / 2, 1e-6) << "x is added to both alike";
  EXPECT_EQ(rows.back().non_finite, 0);
}

TEST_F(QuantReport, NothingQuantisedIsNoError) {
  EXPECT_TRUE(layers({}).empty());
  for (const OutputError& row : outputs({})) {
    EXPECT_EQ(row.relative, 0);
    EXPECT_NEAR(row.cosine, 1, 1e-12);
  }
}

TEST_F(QuantReport, ValuesOfAllSamplesAreWeighedTogether) {
  // Row maxima are exact in w8a8, so is everything here but the factor.
  const auto rows = layers({{"a", {WeightQuant::W8A8, false}}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_NEAR(rows[0].relative, 0.25, 5e-3);
  samples_ = {{{"x", HostTensor(DType::F32, {3, 2})}}};
  EXPECT_EQ(layers({{"a", {WeightQuant::W8A8, false}}})[0].relative, 0);
}

TEST_F(QuantReport, Refusals) {
  EXPECT_ERROR(layers({{"d", {WeightQuant::W8A16, false}}}), ErrorCode::InvalidArgument, "'d'");
  samples_ = {{{"x", HostTensor(DType::F32, {3, 3})}}};
  EXPECT_ERROR(layers({{"a", {WeightQuant::W8A16, false}}}), ErrorCode::InvalidArgument,
               "input 'x' must be");
  samples_ = {NamedTensors{}};
  EXPECT_ERROR(outputs({}), ErrorCode::InvalidArgument, "input 'x' is missing");
  samples_.clear();
  EXPECT_ERROR(layers({{"a", {WeightQuant::W8A16, false}}}), ErrorCode::InvalidArgument,
               "no sample");
}

TEST_F(QuantReport, ANumberThatIsNotFiniteIsOverEveryBound) {
  samples_ = {sample(std::numeric_limits<float>::infinity())};
  const auto rows = layers({{"a", {WeightQuant::W8A16, false}}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].within_bound());
}

}  // namespace
}  // namespace difflet::compile
