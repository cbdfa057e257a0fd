#include "difflet/bench/windows.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace difflet::bench {
namespace {

void spin(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {}
}

TEST(Windows, SummaryIsMedianAndSpread) {
  std::vector<double> rates;
  for (int i = 100; i >= 0; --i) {
    rates.push_back(i);
  }
  const Measured m = summary_of(rates);
  EXPECT_EQ(m.median, 50);
  EXPECT_EQ(m.low, 5);
  EXPECT_EQ(m.high, 95);
  EXPECT_EQ(m.windows, 101);
  EXPECT_EQ(summary_of({}).windows, 0);
  EXPECT_EQ(summary_of({7}).low, 7);
}

TEST(Windows, EveryThreadWorks) {
  for (const Resource resource : {Resource::Core, Resource::Shared}) {
    std::atomic<int> calls[2] = {0, 0};
    const auto work = [&calls](std::size_t i) {
      return [&calls, i] {
        ++calls[i];
        spin(1e-4);
        return 1.0;
      };
    };
    (void)measure({work(0), work(1)}, {.resource = resource, .windows = 3, .budget_s = 0.05});
    EXPECT_GE(calls[0], 2);
    EXPECT_GE(calls[1], 2);
  }
}

TEST(Windows, ThreadsThatStoppedDoNotCount) {
  const Work sleeps = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return 1.0;
  };
  EXPECT_EQ(measure({sleeps}, {.windows = 3, .budget_s = 0.02}).windows, 0);
  EXPECT_EQ(
      measure({sleeps}, {.resource = Resource::Shared, .windows = 3, .budget_s = 0.02}).windows, 0);
}

}  // namespace
}  // namespace difflet::bench
