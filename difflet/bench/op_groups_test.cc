#include "difflet/bench/op_groups.h"

#include <gtest/gtest.h>

namespace difflet::bench {
namespace {

runtime::StepTime step(std::string kernel, double seconds, double flops, double bytes) {
  runtime::StepTime s;
  s.what = kernel + " somewhere";
  s.kernel = std::move(kernel);
  s.seconds = seconds;
  s.flops = flops;
  s.bytes = bytes;
  return s;
}

TEST(OpGroups, SumByKernelLongestFirst) {
  const auto groups =
      group_steps({step("copy", 1, 0, 10), step("linear", 2, 100, 20), step("copy", 0.5, 0, 5)});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].kernel, "linear");
  EXPECT_EQ(groups[1].kernel, "copy");
  EXPECT_EQ(groups[1].steps, 2);
  EXPECT_EQ(groups[1].seconds, 1.5);
  EXPECT_EQ(groups[1].bytes, 15);
}

TEST(OpGroups, EqualTimesAreOrderedByName) {
  const auto groups = group_steps({step("b", 1, 0, 0), step("a", 1, 0, 0)});
  EXPECT_EQ(groups[0].kernel, "a");
}

TEST(OpGroups, NoStepsMakeNoGroups) {
  EXPECT_TRUE(group_steps({}).empty());
  EXPECT_EQ(sum_steps({}).steps, 0);
  EXPECT_EQ(sum_steps({step("a", 1, 7, 3), step("b", 2, 8, 4)}).flops, 15);
}

}  // namespace
}  // namespace difflet::bench
