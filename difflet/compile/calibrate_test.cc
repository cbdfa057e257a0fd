#include "difflet/compile/calibrate.h"

#include <cmath>

#include <gmock/gmock.h>

#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"
#include "difflet/compile/component.h"
#include "difflet/compile/quant_report.h"
#include "difflet/graph/graph.h"

namespace difflet::compile {
namespace {

using graph::WeightQuant;
using graph::passes::LinearQuant;
using graph::passes::LinearQuantPlan;
using ::testing::ElementsAre;
using ::testing::Pair;
using testing::TemporaryFolder;

// Two blocks; "a" is read in both.
constexpr const char* kGraph = R"(graph "toy" mesh(dp=1, cfg=1, cp=1, tp=1) {
  %0 = input() {name="x", shape=[3, 2]} : f32[3, 2]
  %1 = param "a" f32[2, 2] : f32[2, 2]
  %2 = linear(%0, %1) : f32[3, 2] @ "blocks.0.layer"
  %3 = param "b" f32[4, 2] : f32[4, 2]
  %4 = linear(%2, %3) : f32[3, 4] @ "blocks.1.layer"
  %5 = linear(%2, %1) : f32[3, 2] @ "blocks.1.other"
  return "y"=%4, "z"=%5
}
)";

HostTensor tensor(const Shape& shape, const std::vector<float>& values) {
  return HostTensor::from(shape, std::span<const float>(values));
}

// A checkpoint of these tensors.
class Stored {
 public:
  explicit Stored(const std::map<std::string, HostTensor>& tensors) {
    io::write_safetensors(folder_ / "model.safetensors", tensors);
    checkpoint_ = io::Checkpoint::open(folder_.path());
  }
  const io::Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  TemporaryFolder folder_;
  io::Checkpoint checkpoint_;
};

class Calibrate : public ::testing::Test {
 protected:
  ColumnMaxima observed(const graph::Graph& graph, const std::vector<std::string>& layers,
                        const io::Checkpoint& checkpoint,
                        const std::vector<NamedTensors>& samples) {
    const CheckpointWeights weights(checkpoint);
    const Observation what{.graph = &graph,
                           .layers = layers,
                           .weights = &weights,
                           .samples = samples,
                           .backend = &backends::find("reference"),
                           .options = {}};
    ColumnMaxima maxima;
    observe(what, context_, maxima, [&](const std::string& name) { segments_.push_back(name); });
    return maxima;
  }

  Log log_{LogLevel::Off};
  ThreadPool threads_{2};
  Context context_{.log = log_, .threads = threads_};
  std::vector<std::string> segments_;
  Stored identity_{{{"a", tensor({2, 2}, {2, 0, 0, -1})}, {"b", HostTensor(DType::F32, {4, 2})}}};
};

TEST_F(Calibrate, FindsTheLargestMagnitudeOfEachColumn) {
  const std::vector<NamedTensors> samples{{{"x", tensor({3, 2}, {1, -2, 0.5F, 0, -3, 1})}},
                                          {{"x", tensor({3, 2}, {0, 0, 1, -7, 0, 0})}}};
  const graph::Graph graph = graph::parse(kGraph);
  // "a" sees x and, in the second block, [2 x_0, -x_1].
  EXPECT_THAT(observed(graph, {"a", "b"}, identity_.checkpoint(), samples),
              ElementsAre(Pair("a", ElementsAre(6, 7)), Pair("b", ElementsAre(6, 7))));
  EXPECT_THAT(segments_, ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(observed(graph, {"b"}, identity_.checkpoint(), {samples[0]}),
              ElementsAre(Pair("b", ElementsAre(6, 2))));
}

TEST_F(Calibrate, RefusesWhatItCannotObserve) {
  const graph::Graph graph = graph::parse(kGraph);
  EXPECT_ERROR(observed(graph, {"c"}, identity_.checkpoint(), {}), ErrorCode::InvalidArgument,
               "'c' is not the weight of a linear layer");
  EXPECT_ERROR(observed(graph, {"a"}, identity_.checkpoint(), {{}}), ErrorCode::InvalidArgument,
               "input 'x' is missing");
  const std::vector<NamedTensors> infinite{{{"x", tensor({3, 2}, {1, 2, 3, 4, 5, INFINITY})}}};
  EXPECT_ERROR(observed(graph, {"a"}, identity_.checkpoint(), infinite), ErrorCode::DataLoss,
               "'a' is given numbers that are not finite");
}

TEST(Statistics, ComeBackAsTheyWere) {
  const TemporaryFolder folder;
  const ModelStatistics all{{"t5", {"T5EncoderModel", {{"a", {1, 2}}, {"b/c", {0}}}}},
                            {"empty", {"Other", {}}}};
  write_statistics(folder / "f.safetensors", all);
  EXPECT_EQ(read_statistics(folder / "f.safetensors"), all);
}

TEST(Statistics, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> format{{"format", "difflet-calibration"},
                                                  {"class/t5", "T5EncoderModel"}};
  const auto refused = [&](const std::map<std::string, HostTensor>& tensors,
                           const std::map<std::string, std::string>& metadata, ErrorCode code,
                           const std::string& part) {
    io::write_safetensors(folder / "f", tensors, metadata);
    EXPECT_ERROR(read_statistics(folder / "f"), code, part);
  };
  refused({}, {}, ErrorCode::InvalidArgument, "not a file of calibration statistics");
  refused({}, {{"format", "pt"}}, ErrorCode::InvalidArgument, "not a file of calibration");
  refused({{"a", tensor({1}, {1})}}, format, ErrorCode::DataLoss, "'a' is of no component");
  refused({{"vae/a", tensor({1}, {1})}}, format, ErrorCode::DataLoss, "'vae/a' is of no component");
  refused({{"t5/a", tensor({1, 1}, {1})}}, format, ErrorCode::DataLoss, "not F32 of rank 1");
  refused({{"t5/a", tensor({1}, {1}).to(DType::BF16)}}, format, ErrorCode::DataLoss, "not F32");
  refused({{"t5/a", tensor({1}, {-1})}}, format, ErrorCode::DataLoss, "no magnitude");
  refused({{"t5/a", tensor({1}, {NAN})}}, format, ErrorCode::DataLoss, "no magnitude");
}

TEST(Statistics, OfAnotherModelDoNotFit) {
  const Stored stored({{"a", HostTensor(DType::F32, {2, 3})}});
  const LinearQuantPlan plan{{"a", {WeightQuant::W8A8, true}}};
  const auto refused = [&](const ModelStatistics& all, const std::string& part) {
    EXPECT_ERROR((void)statistics_of(all, "t5", "T5", plan, stored.checkpoint()),
                 ErrorCode::InvalidArgument, part);
  };
  refused({}, "it has no statistics of t5");
  refused({{"t5", {"Other", {}}}}, "its t5 is a Other, this one is a T5");
  refused({{"t5", {"T5", {{"b", {1}}}}}}, "layer 'a', of which it says nothing");
  refused({{"t5", {"T5", {{"a", {1, 2}}}}}}, "2 columns of t5's 'a', which has 3");
  const ModelStatistics right{{"t5", {"T5", {{"a", {1, 2, 3}}}}}};
  EXPECT_EQ(&statistics_of(right, "t5", "T5", plan, stored.checkpoint()), &right.at("t5"));
}

// A layer some of whose inputs are a hundred times the others, as those of trained transformers are.
class Outliers : public Calibrate {
 protected:
  static constexpr std::int64_t kRows = 32, kColumns = 64, kOutputs = 48;

  // Pseudo-random values around 0, those of every 16th column `factor` times as large.
  static HostTensor noise(std::int64_t rows, std::uint32_t state, float factor) {
    HostTensor t(DType::F32, {rows, kColumns});
    const std::span<float> values = t.mutable_as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      values[i] = (static_cast<float>(state >> 8U) * 0x1p-23F - 1) * (i % 16 == 3 ? factor : 1);
    }
    return t;
  }

  double error(const LinearQuant& quant, const SmoothVectors& smooth) {
    const LinearQuantPlan plan{{"w", quant}};
    const QuantizedWeights weights(stored_.checkpoint(), plan, threads_, nullptr, smooth);
    double relative = -1;
    measure_layers({.graph = &graph_,
                    .plan = &plan,
                    .weights = &weights,
                    .samples = samples_,
                    .backend = &backends::find("reference"),
                    .options = {}},
                   context_, [&](const LayerError& row) { relative = row.relative; });
    return relative;
  }

  SmoothVectors vectors(const std::vector<NamedTensors>& seen) {
    const ColumnMaxima maxima = observed(graph_, {"w"}, stored_.checkpoint(), seen);
    return smooth_vectors({{"w", {WeightQuant::W8A8, true}}}, maxima, stored_.checkpoint(),
                          threads_, [] {});
  }

  graph::Graph graph_ = graph::parse(fmt::format(
      R"(graph "toy" mesh(dp=1, cfg=1, cp=1, tp=1) {{
  %0 = input() {{name="x", shape=[{0}, {1}]}} : f32[{0}, {1}]
  %1 = param "w" f32[{2}, {1}] : f32[{2}, {1}]
  %2 = linear(%0, %1) : f32[{0}, {2}]
  return "y"=%2
}}
)",
      kRows, kColumns, kOutputs));
  Stored stored_{{{"w", noise(kOutputs, 5, 0.02F)}}};
  std::vector<NamedTensors> samples_{{{"x", noise(kRows, 7, 100)}}};
};

TEST_F(Outliers, SmoothingLowersTheError) {
  for (const float factor : {30.0F, 100.0F}) {
    samples_ = {{{"x", noise(kRows, 7, factor)}}};
    const double plain = error({WeightQuant::W8A8, false}, {});
    const double smoothed = error({WeightQuant::W8A8, true}, vectors(samples_));
    EXPECT_LT(smoothed, layer_bound(WeightQuant::W8A8));
    EXPECT_LT(smoothed, plain / 2) << factor << ": the error without is " << plain;
    RecordProperty(fmt::format("plain_{}", factor), fmt::format("{}", plain));
    RecordProperty(fmt::format("smoothed_{}", factor), fmt::format("{}", smoothed));
  }
  EXPECT_GT(error({WeightQuant::W8A8, false}, {}), layer_bound(WeightQuant::W8A8));
}

// Calibration that sees next to nothing of most columns does little harm.
TEST_F(Outliers, ColumnsThatWereHardlySeen) {
  samples_ = {{{"x", noise(kRows, 7, 1)}}};
  HostTensor seen = noise(kRows, 9, 1);
  const std::span<float> values = seen.mutable_as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= i % 3 == 0 ? 1e-6F : 1;
  }
  const double plain = error({WeightQuant::W8A8, false}, {});
  EXPECT_LT(error({WeightQuant::W8A8, true}, vectors({{{"x", seen}}})), 3 * plain);
}

TEST_F(Outliers, SmoothingTakesStatistics) {
  const LinearQuantPlan plan{{"w", {WeightQuant::W8A8, true}}};
  EXPECT_ERROR(smooth_vectors(plan, {}, stored_.checkpoint(), threads_, [] {}),
               ErrorCode::InvalidArgument, "the calibration says nothing of layer 'w'");
  EXPECT_THAT(smooth_vectors({{"w", {WeightQuant::W8A16, false}}}, {}, stored_.checkpoint(),
                             threads_, [] {}),
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace difflet::compile
