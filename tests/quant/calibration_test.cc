// What prompts show of the demo model.
#include "difflet/pipelines/calibration.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

const std::string kLayer = "transformer_blocks.0.attn.to_q.weight";
const std::string kT5Layer = "encoder.block.0.layer.0.SelfAttention.q.weight";

class CalibrationTest : public ::testing::Test {
 protected:
  PipelineOptions options(std::optional<graph::WeightQuant> mode) const {
    PipelineOptions options;
    options.build.backend = &backends::find("cpu");
    options.build.quant.mode = mode;
    return options;
  }
  Calibration run(const PipelineOptions& options, const std::vector<std::string>& prompts) {
    FluxPipeline pipeline("demo", options, context_);
    const GenerateRequest request =
        pipeline.resolved({.width = 32, .height = 32, .steps = 3, .max_sequence_length = 16});
    compile::BuildOptions build = options.build;
    build.quant = {};
    Observer observer;
    return calibrate(pipeline,
                     {.prompts = prompts,
                      .request = request,
                      .layers = {{"transformer", {kLayer}}, {"text_encoder_2", {kT5Layer}}}},
                     build, context_, observer);
  }

  Log log_{LogLevel::Off};
  ThreadPool threads_{2};
  Context context_{.log = log_, .threads = threads_};
};

TEST_F(CalibrationTest, SeesEveryStepOfEveryPrompt) {
  const Calibration one = run(options(std::nullopt), {"a circle"});
  EXPECT_EQ(one.statistics.at("transformer").class_name, "FluxTransformer2DModel");
  EXPECT_EQ(one.statistics.at("transformer").layers.at(kLayer).size(), 192U);
  EXPECT_EQ(one.samples.at("transformer").size(), 3U);
  EXPECT_EQ(one.samples.at("text_encoder_2").size(), 1U);
  EXPECT_TRUE(one.samples.at("transformer").front().contains("hidden_states"));

  const Calibration two = run(options(std::nullopt), {"a circle", "two squares", "a", "b"});
  EXPECT_EQ(two.samples.at("transformer").size(), 6U);  // every second of 12
  EXPECT_EQ(two.samples.at("text_encoder_2").size(), 4U);
  // More prompts never see less.
  for (const auto& [component, statistics] : one.statistics) {
    for (const auto& [layer, maxima] : statistics.layers) {
      const std::vector<float>& more = two.statistics.at(component).layers.at(layer);
      for (std::size_t k = 0; k < maxima.size(); ++k) {
        EXPECT_GE(more[k], maxima[k]) << layer << " " << k;
      }
    }
  }
}

// Where floats do not fit into memory.
TEST_F(CalibrationTest, APipelineOfInt8WeightsSeesTheSame) {
  const Calibration floats = run(options(std::nullopt), {"a circle"});
  const Calibration int8 = run(options(graph::WeightQuant::W8A16), {"a circle"});
  const std::vector<float>& a = floats.statistics.at("transformer").layers.at(kLayer);
  const std::vector<float>& b = int8.statistics.at("transformer").layers.at(kLayer);
  ASSERT_EQ(a.size(), b.size());
  double error = 0;
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    error += std::abs(a[k] - b[k]);
    sum += a[k];
  }
  EXPECT_LT(error, 0.02 * sum);
  EXPECT_EQ(floats.statistics.at("text_encoder_2"), int8.statistics.at("text_encoder_2"));
}

TEST(CalibrationPrompts, AreDifferent) {
  const auto prompts = calibration_prompts();
  EXPECT_EQ(std::set<std::string_view>(prompts.begin(), prompts.end()).size(), prompts.size());
}

}  // namespace
}  // namespace difflet::pipelines
