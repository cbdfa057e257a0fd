#include "difflet/base/log.h"

#include <gtest/gtest.h>

namespace difflet {
namespace {

TEST(Log, WritesLinesOfItsLevelAndAboveToStderr) {
  ::testing::internal::CaptureStderr();
  Log log(LogLevel::Warning);
  log.info("step {}", 1);
  log.warn("slow {{}} {}", 2);
  log.write(LogLevel::Error, "bad {} line");
  const std::string out = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(out.find("step"), std::string::npos);
  EXPECT_NE(out.find("warning: slow {} 2\n"), std::string::npos) << out;
  EXPECT_NE(out.find("error: bad {} line\n"), std::string::npos) << out;
}

TEST(Log, OffWritesNothing) {
  ::testing::internal::CaptureStderr();
  Log log(LogLevel::Off);
  log.write(LogLevel::Error, "x");
  log.write(LogLevel::Off, "x");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace difflet
