#include "difflet/bench/ceilings.h"

#include <cstddef>

#include <gtest/gtest.h>

#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

TEST(Ceilings, LevelsHaveTheirArithmetic) {
  EXPECT_EQ(arithmetic_of_level("scalar", DType::BF16), Arithmetic::F32Xmm);
  EXPECT_EQ(arithmetic_of_level("avx2", DType::BF16), Arithmetic::F32Ymm);
  EXPECT_EQ(arithmetic_of_level("avx512", DType::BF16), Arithmetic::F32Zmm);
  EXPECT_EQ(arithmetic_of_level("avx512bf16", DType::BF16), Arithmetic::Bf16Zmm);
  EXPECT_EQ(arithmetic_of_level("avx512bf16", DType::F32), Arithmetic::F32Zmm);
  EXPECT_EQ(arithmetic_of_level("amx", DType::BF16), Arithmetic::Bf16Amx);
  EXPECT_EQ(arithmetic_of_level("amx", DType::F32), Arithmetic::F32Zmm);
}

// Runs what the chip has and refuses the rest: an instruction that it lacks would end the process.
TEST(Ceilings, EveryArithmeticRunsOrIsRefused) {
  EXPECT_TRUE(chip_has(Arithmetic::F32Xmm));
  for (const Arithmetic arithmetic : kArithmetics) {
    if (chip_has(arithmetic)) {
      EXPECT_NO_THROW((void)ceiling_gflops(arithmetic, 1)) << arithmetic_name(arithmetic);
    } else {
      EXPECT_THROW(ceiling_gflops(arithmetic, 1), Error) << arithmetic_name(arithmetic);
    }
  }
}

// A wrong address or register ends the process; how many windows count is up to the machine.
TEST(Ceilings, EveryStreamRuns) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{16384}, std::size_t{300000}}) {
    EXPECT_NO_THROW((void)measure_cache(bytes, 2, Resource::Core));
  }
  for (const Access access : kAccesses) {
    EXPECT_NO_THROW((void)measure_memory(access, PageSize::Small, 1));
    EXPECT_NO_THROW((void)measure_memory(access, PageSize::Huge, 2));
  }
}

TEST(Ceilings, CachesGrow) {
  const CacheSizes sizes = cache_sizes();
  EXPECT_GT(sizes.l1, 0U);
  EXPECT_GT(sizes.l2, sizes.l1);
  EXPECT_GT(sizes.l3, sizes.l2);
}

Ceilings known() {
  Ceilings c;
  c.arithmetic = {{Arithmetic::F32Ymm, 1, {100e9, 99e9, 101e9, 25}},
                  {Arithmetic::F32Ymm, 2, {90e9, 80e9, 95e9, 25}},
                  {Arithmetic::Bf16Zmm, 2, {}}};
  c.memory = {{MemoryLevel::Memory, Access::Read, PageSize::Small, 0, 2, {5e9, 5e9, 5e9, 9}},
              {MemoryLevel::Memory, Access::Copy, PageSize::Huge, 0, 2, {6e9, 6e9, 6e9, 9}},
              {MemoryLevel::Memory, Access::Read, PageSize::Huge, 0, 2, {10e9, 9e9, 11e9, 9}},
              {MemoryLevel::L2, Access::Read, PageSize::Huge, 512, 2, {50e9, 49e9, 51e9, 9}}};
  return c;
}

TEST(Ceilings, AreFoundByKindAndThreads) {
  const Ceilings c = known();
  EXPECT_EQ(c.operations(Arithmetic::F32Ymm, 1), 100e9);
  EXPECT_EQ(c.operations(Arithmetic::F32Ymm, 2), 180e9);
  EXPECT_EQ(c.operations(Arithmetic::Bf16Zmm, 2), 0);
  EXPECT_EQ(c.operations(Arithmetic::F32Zmm, 2), 0);
  EXPECT_EQ(c.bandwidth(MemoryLevel::Memory, 2), 20e9);
  EXPECT_EQ(c.bandwidth(MemoryLevel::L2, 2), 100e9);
  EXPECT_EQ(c.bandwidth(MemoryLevel::L2, 1), 0);
}

TEST(Ceilings, TextSaysWhatWasNotMeasured) {
  const std::string text = ceilings_text(known());
  EXPECT_NE(text.find("f32 ymm                        2 threads     180.0 GFLOP/s"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("not measured"), std::string::npos) << text;
  EXPECT_NE(text.find("memory read, 2 MB pages        2 threads      20.0 GB/s"), std::string::npos)
      << text;
  const Json json = ceilings_json(known());
  EXPECT_EQ(json.at("arithmetic").size(), 3U);
  EXPECT_EQ(json.at("memory").at(2).at("bytes_per_second").at("windows"), 9);
}

}  // namespace
}  // namespace difflet::bench
