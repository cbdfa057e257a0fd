#include "difflet/pipelines/input_recorder.h"

#include <gtest/gtest.h>

namespace difflet::pipelines {
namespace {

compile::NamedTensors numbered(float value) {
  const std::vector<float> values{value};
  return {{"x", HostTensor::from({1}, std::span<const float>(values))}};
}

std::vector<float> numbers(const std::vector<compile::NamedTensors>& all) {
  std::vector<float> values;
  for (const compile::NamedTensors& one : all) {
    values.push_back(one.at("x").to_floats().front());
  }
  return values;
}

TEST(InputRecorder, KeepsRunsFromTheFirstToTheLast) {
  Observer nobody;
  InputRecorder recorder({"transformer", "text_encoder"}, 12, 4, nobody);
  for (const bool keep : {true, false, true}) {
    recorder.begin_request(keep);
    recorder.component_inputs("text_encoder", numbered(100));
    for (int step = 0; step < 12; ++step) {
      recorder.component_inputs("transformer", numbered(static_cast<float>(step)));
    }
    recorder.component_inputs("vae", numbered(7));
  }
  EXPECT_EQ(recorder.inputs().size(), 2U);
  EXPECT_EQ(numbers(recorder.inputs().at("text_encoder")), (std::vector<float>{100, 100}));
  EXPECT_EQ(numbers(recorder.inputs().at("transformer")),
            (std::vector<float>{0, 3, 7, 11, 0, 3, 7, 11}));
}

TEST(InputRecorder, KeepsEachRunOnceWhenThereAreFewerThanAsked) {
  Observer nobody;
  InputRecorder recorder({"transformer"}, 2, 4, nobody);
  recorder.begin_request(true);
  for (int step = 0; step < 2; ++step) {
    recorder.component_inputs("transformer", numbered(static_cast<float>(step)));
  }
  EXPECT_EQ(numbers(recorder.inputs().at("transformer")), (std::vector<float>{0, 1}));
}

}  // namespace
}  // namespace difflet::pipelines
