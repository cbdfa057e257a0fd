// What a convolution takes into its step: the doubling before it, the sum after it; and norms that work
// in the memory of their operand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/testing.h"
#include "difflet/tensor/compare.h"

namespace difflet::cpu {
namespace {

using ::testing::ElementsAre;
using testing::Loaded;
using testing::Program;
using Id = graph::NodeId;

Id conv3x3(Program& p, const std::string& name, Id x, std::int64_t in, std::int64_t out) {
  return p.add(
      graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1, .bias = true},
      {x, p.param(name, {out, in, 3, 3}), p.param(name + "_b", {out})});
}

Id norm(Program& p, const std::string& name, Id x, std::int64_t channels) {
  return p.add(graph::GroupNorm{.groups = 4},
               {x, p.param(name + "_w", {channels}), p.param(name + "_b", {channels})});
}

std::vector<std::string> kernels(const Program& p, Level level) {
  const graph::Graph g = prepare(p.graph());
  std::vector<std::string> names;
  for (const Step& s : Planner(g, {.level = level, .threads = 1}).build().steps) {
    names.push_back(s.what.substr(0, s.what.find(' ')));
  }
  return names;
}

std::size_t arena(const Program& p) {
  const graph::Graph g = prepare(p.graph());
  return Planner(g, {.level = Level::Scalar, .threads = 1}).build().arena_bytes;
}

// A block of the decoder: doubling, convolution, norm, convolution, sum.
Program block(DType dtype) {
  Program p(dtype);
  const Id x = p.input("x", {2, 7, 5, 64});
  const Id large = conv3x3(p, "up", p.add(graph::Upsample{}, {x}), 64, 64);
  const Id h = conv3x3(p, "conv", norm(p, "norm", large, 64), 64, 64);
  p.output(p.add(graph::Binary{}, {large, h}));
  return p;
}

TEST(Fused, DoublingAndSumAreStepsOfTheirOwnOnlyWhereTheKernelTakesNone) {
  if (detect_level() < Level::Avx512Bf16) {
    GTEST_SKIP() << "no bf16 products";
  }
  EXPECT_THAT(kernels(block(DType::BF16), Level::Avx512Bf16),
              ElementsAre("conv.winograd.bf16.doubled", "group_norm", "conv.winograd.bf16"));
  EXPECT_EQ(kernels(block(DType::F32), Level::Avx512Bf16).size(), 4U);
  EXPECT_EQ(kernels(block(DType::F32), Level::Avx512Bf16)[0], "upsample");
}

TEST(Fused, ADoublingThatSomethingElseReadsIsDone) {
  if (detect_level() < Level::Avx512Bf16) {
    GTEST_SKIP() << "no bf16 products";
  }
  Program p(DType::BF16);
  const Id large = p.add(graph::Upsample{}, {p.input("x", {1, 4, 4, 64})});
  p.output(conv3x3(p, "conv", large, 64, 64));
  p.output(p.activate(large));
  EXPECT_THAT(kernels(p, Level::Avx512Bf16),
              ElementsAre("upsample", "conv.winograd.bf16", "activate"));
}

TEST(Fused, ResultsAreThoseOfTheScalarLevel) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Program p = block(dtype);
    const auto inputs = testing::inputs_of(p.graph());
    Loaded plain(p.graph(), {}, 2, {.cpu_level = "scalar"});
    Loaded best(p.graph());
    (void)best->run(inputs);  // a second run finds what the first left in the arena
    const Difference difference = compare(best->run(inputs).at(0), plain->run(inputs).at(0));
    EXPECT_LE(difference.relative, dtype == DType::F32 ? 1e-5 : 6e-3) << difference.str();
  }
}

// Two sums of one convolution, or a sum with what comes later, stay on their own.
TEST(Fused, ASumIsTakenOnlyWithItsOnlyReaderAndAnOperandThatIsThere) {
  Program p;
  const Id x = p.input("x", {1, 4, 4, 16});
  const Id h = conv3x3(p, "a", x, 16, 16);
  p.output(p.add(graph::Binary{}, {x, h}));
  p.output(p.add(graph::Binary{.kind = graph::BinaryKind::Mul}, {x, h}));
  const auto names = kernels(p, Level::Scalar);
  EXPECT_EQ(names.size(), 3U);
}

TEST(GroupNorm, WorksInTheMemoryOfAnOperandThatNothingReadsLater) {
  const Shape shape{1, 64, 64, 16};
  const auto bytes = static_cast<std::size_t>(shape.elements()) * sizeof(float);
  const auto make = [&](bool read_later) {
    Program p;
    const Id x = p.activate(p.input("x", shape));
    const Id y = p.activate(norm(p, "n", x, 16));
    p.output(p.add(graph::Binary{}, {y, read_later ? x : y}));
    return p;
  };
  EXPECT_LT(arena(make(false)), 3 * bytes / 2);
  EXPECT_GE(arena(make(true)), 2 * bytes);
}

}  // namespace
}  // namespace difflet::cpu
