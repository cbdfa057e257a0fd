#include "difflet/bench/roofline.h"

#include <sstream>

#include <gtest/gtest.h>

namespace difflet::bench {
namespace {

constexpr double kOperations = 100e9;  // a second, f32 ymm, one thread
constexpr double kBandwidth = 10e9;

Ceilings machine() {
  Ceilings c;
  c.arithmetic = {{Arithmetic::F32Ymm, 1, {kOperations, 0, 0, 1}},
                  {Arithmetic::F32Zmm, 1, {2 * kOperations, 0, 0, 1}},
                  {Arithmetic::Bf16Zmm, 1, {4 * kOperations, 0, 0, 1}}};
  c.memory = {{MemoryLevel::Memory, Access::Read, PageSize::Huge, 0, 1, {kBandwidth, 0, 0, 1}},
              {MemoryLevel::L2, Access::Read, PageSize::Huge, 1, 1, {5 * kBandwidth, 0, 0, 1}}};
  return c;
}

runtime::StepTime step(const std::string& kernel, double seconds, double flops, double bytes) {
  runtime::StepTime s;
  s.what = kernel + " a.b : f32[2]";
  s.kernel = kernel;
  s.seconds = seconds;
  s.flops = flops;
  s.bytes = bytes;
  return s;
}

TEST(ArithmeticOfKernel, FollowsFromItsName) {
  const auto of = [](const char* kernel) { return arithmetic_of_kernel(kernel, "avx512bf16"); };
  EXPECT_EQ(of("linear.avx512bf16.bf16"), Arithmetic::Bf16Zmm);
  EXPECT_EQ(of("linear.avx512bf16.w8a16"), Arithmetic::Bf16Zmm);
  EXPECT_EQ(of("linear.avx512vnni.w8a8"), Arithmetic::Int8Zmm);
  EXPECT_EQ(of("linear.amx.w8a8"), Arithmetic::Int8Amx);
  EXPECT_EQ(of("linear.avx512.w8a8"), Arithmetic::Int16Zmm);
  EXPECT_EQ(of("linear.avx2.w8a8"), Arithmetic::Int16Ymm);
  EXPECT_EQ(of("linear.avx2.w8a16"), Arithmetic::F32Ymm);
  EXPECT_EQ(of("linear.scalar.w8a8"), Arithmetic::F32Xmm);
}

class RooflineOf : public ::testing::Test {
 protected:
  Ceilings ceilings_ = machine();
  Bounds bounds_{.ceilings = &ceilings_, .threads = 1, .level = "avx2"};
};

TEST_F(RooflineOf, ComputeBoundStepIsJudgedByItsOperations) {
  // 50 GFLOP on 1 GB take 0.5 s of arithmetic and 0.1 s of memory.
  const Roofline r = roofline("step", {step("linear.avx2.f32", 1, 50e9, 1e9)}, bounds_);
  ASSERT_EQ(r.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(r.rows[0].bound_s, 0.5);
  EXPECT_DOUBLE_EQ(r.rows[0].share(), 0.5);
  EXPECT_DOUBLE_EQ(r.rows[0].compute_share(), 0.5);
  EXPECT_DOUBLE_EQ(r.rows[0].intensity(), 50);
  EXPECT_FALSE(r.rows[0].memory_bound);
}

TEST_F(RooflineOf, MemoryBoundStepIsJudgedByItsBytes) {
  const Roofline r = roofline("step", {step("linear.avx2.f32", 1, 1e9, 8e9)}, bounds_);
  EXPECT_DOUBLE_EQ(r.rows[0].share(), 0.8);
  EXPECT_DOUBLE_EQ(r.rows[0].compute_share(), 0.01);
  EXPECT_TRUE(r.rows[0].memory_bound);
}

TEST_F(RooflineOf, BoundsOfStepsAddUp) {
  const Roofline r = roofline("step",
                              {step("linear.avx2.f32", 0.5, 50e9, 1e9), step("copy", 0.1, 0, 1e9),
                               step("linear.avx2.f32", 0.4, 0, 2e9)},
                              bounds_);
  ASSERT_EQ(r.rows.size(), 2U);
  EXPECT_EQ(r.rows[0].work.kernel, "linear.avx2.f32");
  EXPECT_DOUBLE_EQ(r.rows[0].bound_s, 0.5 + 0.2);
  EXPECT_FALSE(r.rows[0].memory_bound);
  EXPECT_TRUE(r.rows[1].memory_bound);
  EXPECT_DOUBLE_EQ(r.total.share(), 0.8);
  EXPECT_DOUBLE_EQ(r.total.compute_share(), 0.5);
  EXPECT_EQ(r.total.work.steps, 3);
}

TEST_F(RooflineOf, SmallProgramsAreBoundByTheCacheThatHoldsThem) {
  bounds_.memory = MemoryLevel::L2;
  EXPECT_DOUBLE_EQ(roofline("step", {step("copy", 1, 0, 10e9)}, bounds_).total.share(), 0.2);
}

TEST_F(RooflineOf, WhatWasNotMeasuredBoundsNothing) {
  bounds_.threads = 8;
  const Roofline r = roofline("step", {step("linear.avx2.f32", 1, 50e9, 1e9)}, bounds_);
  EXPECT_EQ(r.total.share(), 0);
  EXPECT_EQ(roofline("step", {}, bounds_).total.share(), 0);
}

TEST_F(RooflineOf, TextFitsIntoHundredColumns) {
  const Roofline r = roofline(
      "step", {step("layer_norm.modulated.of.a.name.that.is.long", 12.3, 50e12, 1e9)}, bounds_);
  std::istringstream lines(roofline_text(r));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
  const Json json = roofline_json(r);
  EXPECT_EQ(json.at("program"), "step");
  EXPECT_EQ(json.at("kernels").at(0).at("bound"), "compute");
  EXPECT_FALSE(json.at("total").contains("kernel"));
}

TEST(KernelArithmetic, IsToldByTheName) {
  EXPECT_EQ(arithmetic_of_kernel("linear.avx512bf16.bf16", "avx512bf16"), Arithmetic::Bf16Zmm);
  EXPECT_EQ(arithmetic_of_kernel("matmul.linear.avx512.f32", "avx512bf16"), Arithmetic::F32Zmm);
  EXPECT_EQ(arithmetic_of_kernel("linear.avx512.bf16", "avx512"), Arithmetic::F32Zmm);
  EXPECT_EQ(arithmetic_of_kernel("attention.avx2", "avx512"), Arithmetic::F32Ymm);
  EXPECT_EQ(arithmetic_of_kernel("linear.amx.bf16", "amx"), Arithmetic::Bf16Amx);
  EXPECT_EQ(arithmetic_of_kernel("conv.direct.bf16", "avx512bf16"), Arithmetic::Bf16Zmm);
  EXPECT_EQ(arithmetic_of_kernel("conv.winograd.f32", "avx512bf16"), Arithmetic::F32Zmm);
  EXPECT_EQ(arithmetic_of_kernel("conv.winograd.amx.doubled", "amx"), Arithmetic::Bf16Amx);
  EXPECT_EQ(arithmetic_of_kernel("softmax", "avx2"), Arithmetic::F32Ymm);
}

TEST(MemoryThatHolds, IsTheSmallestOne) {
  const CacheSizes caches{.l1 = 32, .l2 = 1000, .l3 = 9000};
  EXPECT_EQ(memory_that_holds(64, caches, 2), MemoryLevel::L1);
  EXPECT_EQ(memory_that_holds(65, caches, 2), MemoryLevel::L2);
  EXPECT_EQ(memory_that_holds(2001, caches, 2), MemoryLevel::L3);
  EXPECT_EQ(memory_that_holds(9001, caches, 2), MemoryLevel::Memory);
}

TEST(MedianSteps, AreOfEachStep) {
  const auto steps = median_steps({{step("a", 1, 0, 0), step("b", 9, 0, 0)},
                                   {step("a", 3, 0, 0), step("b", 8, 0, 0)},
                                   {step("a", 2, 0, 0), step("b", 7, 0, 0)}});
  EXPECT_EQ(steps[0].seconds, 2);
  EXPECT_EQ(steps[1].seconds, 8);
}

}  // namespace
}  // namespace difflet::bench
