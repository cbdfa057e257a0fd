#include "difflet/backends/cpu/kernels/level.h"

#include <gtest/gtest.h>

namespace difflet::cpu {
namespace {

TEST(Level, NamesAndParserAgree) {
  for (const Level level : {Level::Scalar, Level::Avx2, Level::Avx512, Level::Avx512Vnni,
                            Level::Avx512Bf16, Level::Amx}) {
    EXPECT_EQ(parse_level(level_name(level)), level);
  }
  EXPECT_EQ(level_name(Level::Avx512Vnni), "avx512vnni");
  EXPECT_EQ(level_name(Level::Avx512Bf16), "avx512bf16");
  EXPECT_EQ(level_name(Level::Amx), "amx");
  EXPECT_EQ(parse_level("sse9"), std::nullopt);
}

TEST(Level, DetectionAgreesWithTheCompilersRuntime) {
  const Level level = detect_level();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  EXPECT_EQ(level >= Level::Avx2, avx2);
  EXPECT_EQ(level >= Level::Avx512, avx2 && avx512);
  const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
  EXPECT_EQ(level >= Level::Avx512Vnni, avx2 && avx512 && vnni);
  EXPECT_EQ(detect_level(), level);  // asking again changes nothing
  EXPECT_LE(level, highest_level());
  EXPECT_LT(level, Level::Amx);  // only by name
}

}  // namespace
}  // namespace difflet::cpu
