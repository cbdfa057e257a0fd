#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/testing.h"
#include "difflet/base/testing.h"

namespace difflet::cpu {
namespace {

using testing::everything;
using ::testing::HasSubstr;
using testing::inputs_of;
using testing::Loaded;
using testing::numbers;
using testing::Program;
using testing::Weights;
using Id = graph::NodeId;

bool same_bits(const HostTensor& a, const HostTensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

// ---- results do not depend on who computes them -------------------------------------------------

class AtLevel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Levels, AtLevel, ::testing::ValuesIn(testing::levels()),
                         [](const auto& test) { return test.param; });

TEST_P(AtLevel, AnyNumberOfThreadsGivesTheSameBits) {
  for (const DType floats : {DType::F32, DType::BF16}) {
    const Program p = everything(floats);
    const auto inputs = inputs_of(p.graph());
    std::vector<std::vector<HostTensor>> results;
    for (const int threads : {1, 2, 3}) {
      Loaded loaded(p.graph(), {}, threads, {.cpu_level = GetParam(), .memory_limit = 0});
      results.push_back(loaded->run(inputs));
      const auto again = loaded->run(inputs);
      for (std::size_t i = 0; i < again.size(); ++i) {
        EXPECT_TRUE(same_bits(again[i], results.back()[i])) << "a second run differs, output " << i;
        EXPECT_TRUE(same_bits(results.back()[i], results[0][i]))
            << threads << " threads, output " << i;
      }
    }
  }
}

TEST_P(AtLevel, KernelsOfThatLevelRun) {
  const Program p = everything(DType::F32);
  Loaded loaded(p.graph(), {}, 1, {.cpu_level = GetParam(), .memory_limit = 0});
  // bf16 instructions and tiles have no use in f32.
  const std::string level = parse_level(GetParam()) > Level::Avx512 ? "avx512" : GetParam();
  const std::vector<std::string> lines = loaded->explain();
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("linear." + level + ".f32 ")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("attention." + level + " ")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("conv.")));
}

// ---- refusals -----------------------------------------------------------------------------------

TEST(Load, RefusesALevelThatIsUnknownOrBeyondTheChip) {
  const Program p = everything(DType::F32);
  EXPECT_ERROR(Loaded(p.graph(), {}, 1, {.cpu_level = "sse9", .memory_limit = 0}),
               ErrorCode::InvalidArgument,
               "unknown cpu level 'sse9': scalar, avx2, avx512, avx512vnni, avx512bf16 or amx");
  if (detect_level() < Level::Avx512Bf16) {
    EXPECT_ERROR(Loaded(p.graph(), {}, 1, {.cpu_level = "avx512bf16", .memory_limit = 0}),
                 ErrorCode::Unsupported, "is not available: this chip has");
  }
  if (highest_level() < Level::Amx) {
    EXPECT_ERROR(Loaded(p.graph(), {}, 1, {.cpu_level = "amx", .memory_limit = 0}),
                 ErrorCode::Unsupported, "cpu level amx is not available: this chip has");
  }
}

TEST(Load, RefusesMoreMemoryThanTheLimit) {
  Program p;
  p.output(p.linear("w", p.input("x", {4, 1024}), 4096));  // 16 MB of weights
  EXPECT_ERROR(Loaded(p.graph(), {}, 1, {.cpu_level = "", .memory_limit = 8 << 20}),
               ErrorCode::ResourceExhausted, "more than the limit of 8.4 MB");
  EXPECT_NO_THROW(Loaded(p.graph(), {}, 1, {.cpu_level = "", .memory_limit = 64 << 20}));
}

TEST(Load, RefusesAProgramForManyRanks) {
  graph::Graph g("g", spmd::Mesh(1, 1, 1, 2));
  g.add_output("y", g.add(graph::Input{"x", DType::F32, Shape{2}}, {}));
  EXPECT_ERROR(Loaded{g}, ErrorCode::Unsupported, "one rank");
}

TEST(Load, RefusesAWeightOfAnotherShape) {
  Program p;
  p.output(p.linear("w", p.input("x", {4, 8}), 8));
  Weights weights;
  weights.set("w", numbers(DType::F32, {8, 4}, 1));
  EXPECT_ERROR(Loaded(p.graph(), weights), ErrorCode::InvalidArgument, "'w'");
}

struct BadWeight {
  std::string name;  // of the parameter in everything()
  Shape shape;
};

class BadWeights : public ::testing::TestWithParam<BadWeight> {};
// One packed by each kind of job: linear, conv, plain.
INSTANTIATE_TEST_SUITE_P(Jobs, BadWeights,
                         ::testing::Values(BadWeight{"wm", {128, 64}},
                                           BadWeight{"conv", {32, 16, 3, 3}},
                                           BadWeight{"gn_w", {32}}),
                         [](const auto& test) { return test.param.name; });

TEST_P(BadWeights, NanAndInfAreDataLossNamingTheTensor) {
  for (const DType source : {DType::F32, DType::BF16, DType::F16}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (const DType floats : {DType::F32, DType::BF16}) {
        HostTensor value = numbers(DType::F32, GetParam().shape, 5);
        value.mutable_as<float>()[static_cast<std::size_t>(value.shape().elements()) - 2] = bad;
        Weights weights;
        weights.set(GetParam().name, value.to(source));
        const Program p = everything(floats);
        EXPECT_ERROR(Loaded(p.graph(), weights), ErrorCode::DataLoss,
                     "tensor '" + GetParam().name + "' holds NaN or Inf");
      }
    }
  }
}

TEST_P(BadWeights, AreThoseThatOverflowInTheProgramsDtype) {
  HostTensor value = numbers(DType::F32, GetParam().shape, 5);
  value.mutable_as<float>()[3] = std::numeric_limits<float>::max();  // rounds to infinity in bf16
  Weights weights;
  weights.set(GetParam().name, value);
  if (GetParam().name == "wm") {
    const Program p = everything(DType::BF16);
    EXPECT_ERROR(Loaded(p.graph(), weights), ErrorCode::DataLoss, "'wm'");
  }
  EXPECT_NO_THROW(Loaded(everything(DType::F32).graph(), weights));
}

TEST(Run, RefusesInputsOfAnotherShapeDtypeOrNumber) {
  Program p;
  p.output(p.activate(p.input("latents", {4, 8})));
  Loaded loaded(p.graph());
  EXPECT_ERROR((void)loaded->run({numbers(DType::F32, {8, 4}, 1)}), ErrorCode::InvalidArgument,
               "'latents'");
  EXPECT_ERROR((void)loaded->run({numbers(DType::BF16, {4, 8}, 1)}), ErrorCode::InvalidArgument,
               "must be f32[4, 8], not bf16[4, 8]");
  EXPECT_ERROR((void)loaded->run({}), ErrorCode::InvalidArgument, "1 input");
}

TEST(Run, RefusesAnIndexOutsideTheTable) {
  Program p;
  p.output(p.add(graph::Gather{}, {p.param("table", {10, 4}), p.input("ids", {2, 2}, DType::I32)}));
  Loaded loaded(p.graph());
  for (const std::int32_t bad : {-1, 10}) {
    const std::vector<std::int32_t> ids{0, 9, bad, 3};
    EXPECT_ERROR((void)loaded->run({HostTensor::from({2, 2}, std::span<const std::int32_t>(ids))}),
                 ErrorCode::InvalidArgument, std::to_string(bad) + " at position 2");
  }
  const std::vector<std::int32_t> good{0, 9, 1, 3};
  EXPECT_NO_THROW(
      (void)loaded->run({HostTensor::from({2, 2}, std::span<const std::int32_t>(good))}));
}

// ---- what it says of itself ---------------------------------------------------------------------

TEST(Report, PlanIsWhatLoadTakes) {
  const Program p = everything(DType::BF16);
  Loaded loaded(p.graph(), {}, 2);
  Log log(LogLevel::Error);
  ThreadPool threads(2);
  Context context{log, threads};
  const runtime::MemoryReport planned = CpuBackend().plan(p.graph(), context, {});
  EXPECT_EQ(planned.total(), loaded->memory().total());
  EXPECT_EQ(CpuBackend().explain(p.graph(), context, {}), loaded->explain());
  EXPECT_GT(planned.weight_bytes, 0U);
  EXPECT_GT(planned.arena_bytes, 0U);
  EXPECT_EQ(CpuBackend().describe({.cpu_level = "scalar", .memory_limit = 0}), "cpu: scalar");
}

TEST(Report, ProfileNamesEveryKernelAfterARun) {
  const Program p = everything(DType::F32);
  Loaded loaded(p.graph());
  EXPECT_TRUE(loaded->profile().empty());
  (void)loaded->run(inputs_of(p.graph()));
  const std::vector<runtime::StepTime> steps = loaded->profile();
  const std::vector<std::string> lines = loaded->explain();
  ASSERT_EQ(steps.size(), lines.size());
  double start = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].what, lines[i]);
    EXPECT_THAT(steps[i].what, ::testing::StartsWith(steps[i].kernel + " "));
    EXPECT_GE(steps[i].start_s, start);
    EXPECT_GE(steps[i].seconds, 0);
    EXPECT_GT(steps[i].bytes, 0) << steps[i].what;
    start = steps[i].start_s + steps[i].seconds;
  }
  for (const char* kernel : {"linear.", "attention.", "conv.", "group_norm", "layer_norm"}) {
    EXPECT_THAT(lines, ::testing::Contains(HasSubstr(kernel)));
  }
}

}  // namespace
}  // namespace difflet::cpu
