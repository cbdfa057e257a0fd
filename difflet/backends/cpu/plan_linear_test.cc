// Plans of Linears with int8 weights, and running them.
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/testing.h"
#include "difflet/base/testing.h"

namespace difflet::cpu {
namespace {

using graph::WeightQuant;
using ::testing::HasSubstr;
using testing::Loaded;
using testing::Program;
using testing::Weights;
using Id = Program::Id;

struct Sizes {
  std::int64_t rows = 5, n = 24, k = 20;
};

// x . w^T with a weight of bytes, its scale and, on demand, factors of x; a bias behind it.
Program product(DType floats, WeightQuant quant, const Sizes& s = {}) {
  Program p(floats);
  const bool smooth = quant == WeightQuant::W8A8;
  std::vector<Id> operands{p.input("x", {s.rows, s.k}), p.param("w", {s.n, s.k}, DType::I8),
                           p.param("w_scale", {s.n}, DType::F32)};
  if (smooth) {
    operands.push_back(p.param("w_smooth", {s.k}, DType::F32));
  }
  operands.push_back(p.param("b", {s.n}));
  p.output(p.add(graph::Linear{.bias = true, .quant = quant, .smooth = smooth}, operands));
  return p;
}

Plan plan(const Program& p, Level level) {
  return Planner(p.graph(), {.level = level, .threads = 2}).build();
}

std::string kernel_of(const Plan& plan) {
  const std::string& what = plan.steps.at(0).what;
  return what.substr(0, what.find(' '));
}

struct Expected {
  Level level;
  DType floats;
  WeightQuant quant;
  std::string kernel;
};

class Int8Kernels : public ::testing::TestWithParam<Expected> {};
INSTANTIATE_TEST_SUITE_P(
    Levels, Int8Kernels,
    ::testing::Values(
        Expected{Level::Scalar, DType::F32, WeightQuant::W8A16, "linear.scalar.w8a16"},
        Expected{Level::Scalar, DType::BF16, WeightQuant::W8A8, "linear.scalar.w8a8"},
        Expected{Level::Avx2, DType::BF16, WeightQuant::W8A16, "linear.avx2.w8a16"},
        Expected{Level::Avx2, DType::F32, WeightQuant::W8A8, "linear.avx2.w8a8"},
        Expected{Level::Avx512, DType::BF16, WeightQuant::W8A16, "linear.avx512.w8a16"},
        Expected{Level::Avx512, DType::BF16, WeightQuant::W8A8, "linear.avx512.w8a8"},
        Expected{Level::Avx512Vnni, DType::BF16, WeightQuant::W8A16, "linear.avx512.w8a16"},
        Expected{Level::Avx512Vnni, DType::F32, WeightQuant::W8A8, "linear.avx512vnni.w8a8"},
        Expected{Level::Avx512Bf16, DType::BF16, WeightQuant::W8A16, "linear.avx512bf16.w8a16"},
        Expected{Level::Avx512Bf16, DType::F32, WeightQuant::W8A16, "linear.avx512.w8a16"},
        Expected{Level::Avx512Bf16, DType::BF16, WeightQuant::W8A8, "linear.avx512vnni.w8a8"},
        Expected{Level::Amx, DType::BF16, WeightQuant::W8A16, "linear.amx.w8a16"},
        Expected{Level::Amx, DType::F32, WeightQuant::W8A16, "linear.avx512.w8a16"},
        Expected{Level::Amx, DType::BF16, WeightQuant::W8A8, "linear.amx.w8a8"},
        Expected{Level::Amx, DType::F32, WeightQuant::W8A8, "linear.amx.w8a8"}));

TEST_P(Int8Kernels, AreTheBestOfTheLevel) {
  const Plan made = plan(product(GetParam().floats, GetParam().quant), GetParam().level);
  EXPECT_EQ(kernel_of(made), GetParam().kernel);
  EXPECT_THAT(made.steps[0].what, HasSubstr("the best at"));
}

TEST(PlanInt8, SaysWhyFloatsDoNotTakeTheBf16Products) {
  const Plan made = plan(product(DType::F32, WeightQuant::W8A16), Level::Avx512Bf16);
  EXPECT_THAT(made.steps[0].what,
              HasSubstr("linear.avx512bf16.w8a16 refused: the kernel multiplies bf16"));
  // Kernels for other weights are no alternatives.
  EXPECT_THAT(made.steps[0].what, ::testing::Not(HasSubstr("another type")));
}

TEST(PlanInt8, CountsOperationsAsAlwaysAndOneByteAWeight) {
  const Sizes s{.rows = 16, .n = 1024, .k = 512};
  const Plan floats = [&] {
    Program p(DType::BF16);
    p.output(p.linear("w", p.input("x", {s.rows, s.k}), s.n));
    return plan(p, Level::Avx2);
  }();
  for (const WeightQuant quant : {WeightQuant::W8A16, WeightQuant::W8A8}) {
    const Plan made = plan(product(DType::BF16, quant, s), Level::Avx2);
    EXPECT_EQ(made.steps[0].flops, floats.steps[0].flops);
    EXPECT_LT(made.steps[0].bytes, 0.55 * floats.steps[0].bytes);
    EXPECT_EQ(made.weights.at(0).piece.bytes, static_cast<std::size_t>(s.n * s.k));
  }
}

TEST(PlanInt8, NamesLayoutsOfPieces) {
  std::vector<std::string> names;
  for (const auto& piece : plan(product(DType::BF16, WeightQuant::W8A8), Level::Avx512).pieces()) {
    names.push_back(piece.name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("w|linear.avx512.w8a8", "w_scale|plain.f32",
                                            "w_smooth|plain.f32", "b|plain.bf16.f32"));
}

TEST(PlanInt8, RefusesSumsThatDoNotFit) {
  const Sizes s{.rows = 1, .n = 2, .k = (std::int64_t{1} << 17U) + 1};
  EXPECT_ERROR((void)plan(product(DType::F32, WeightQuant::W8A8, s), Level::Scalar),
               ErrorCode::Unsupported, "no linear kernel takes weights [2, 131073]: sums of");
  EXPECT_EQ(kernel_of(plan(product(DType::F32, WeightQuant::W8A16, s), Level::Scalar)),
            "linear.scalar.w8a16");
}

TEST(PlanInt8, WeightsAreBytesOrIntegersThatFit) {
  const Program p = product(DType::F32, WeightQuant::W8A16);
  Weights weights;
  const HostTensor bytes = testing::numbers(DType::I8, {24, 20}, 5);
  weights.set("w", bytes);
  const std::vector<HostTensor> inputs = testing::inputs_of(p.graph());
  const HostTensor want = Loaded(p.graph(), weights)->run(inputs).at(0);
  weights.set("w", bytes.to(DType::I32));
  const HostTensor got = Loaded(p.graph(), weights)->run(inputs).at(0);
  EXPECT_TRUE(std::ranges::equal(got.bytes(), want.bytes()));
  weights.set("w", testing::numbers(DType::F32, {24, 20}, 5));
  EXPECT_ERROR(Loaded(p.graph(), weights), ErrorCode::InvalidArgument,
               "tensor 'w' is of f32, which does not convert to i8");
}

TEST(PlanInt8, AnyNumberOfThreadsGivesTheSameBytes) {
  for (const std::string& level : testing::levels()) {
    for (const WeightQuant quant : {WeightQuant::W8A16, WeightQuant::W8A8}) {
      const Program p = product(DType::BF16, quant, {.rows = 200, .n = 777, .k = 130});
      const std::vector<HostTensor> inputs = testing::inputs_of(p.graph());
      const runtime::BackendOptions options{.cpu_level = level, .memory_limit = 0};
      const HostTensor one = Loaded(p.graph(), {}, 1, options)->run(inputs).at(0);
      const HostTensor three = Loaded(p.graph(), {}, 3, options)->run(inputs).at(0);
      EXPECT_TRUE(std::ranges::equal(one.bytes(), three.bytes())) << level;
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
