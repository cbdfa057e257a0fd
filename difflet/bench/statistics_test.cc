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

TEST(Statistics, RatiosOfPairsHaveAnIntervalAroundThem) {
  const Ratio r = paired_ratio({2, 4, 6.6, 8}, {1, 2, 3, 4});
  EXPECT_EQ(r.value, 2);
  EXPECT_EQ(r.low, 2);
  EXPECT_GE(r.high, 2);
  EXPECT_LE(r.high, 2.2);
  const Ratio one = paired_ratio({3}, {2});
  EXPECT_EQ(one.low, 1.5);
  EXPECT_EQ(one.high, 1.5);
  EXPECT_THROW(paired_ratio({1, 2}, {1}), Error);
  EXPECT_THROW(paired_ratio({1}, {0}), Error);
  EXPECT_THROW(paired_ratio({}, {}), Error);
}

TEST(Statistics, MediansOfSeparateSamples) {
  const Ratio r = median_ratio({2, 2, 2}, {1, 1, 1, 1});
  EXPECT_EQ(r.value, 2);
  EXPECT_EQ(r.low, 2);
  const Ratio noisy = median_ratio({0.8, 1.5, 0.9, 1.6, 1.2}, {1, 1.01, 0.99, 1, 1.02});
  EXPECT_LT(noisy.low, 1);
  EXPECT_GT(noisy.high, 1.2);
}

}  // namespace
}  // namespace difflet::bench
