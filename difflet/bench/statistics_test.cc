#include "difflet/bench/statistics.h"

#include <gtest/gtest.h>

#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(median({}), Error);
}

TEST(Statistics, SummaryHoldsTheSpread) {
  const Summary s = summarize({5, 1, 3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.minimum, 1);
  EXPECT_EQ(s.maximum, 5);
}

}  // namespace
}  // namespace difflet::bench
