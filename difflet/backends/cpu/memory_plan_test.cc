#include "difflet/backends/cpu/memory_plan.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace difflet::cpu {
namespace {

// The most bytes alive at one step: no plan can be smaller.
std::size_t lower_bound(const std::vector<Lifetime>& buffers) {
  std::size_t most = 0;
  for (const Lifetime& at : buffers) {
    std::size_t alive = 0;
    for (const Lifetime& b : buffers) {
      alive += b.first <= at.first && at.first <= b.last ? b.bytes : 0;
    }
    most = std::max(most, alive);
  }
  return most;
}

void expect_sound(const std::vector<Lifetime>& buffers, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offset.size(), buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_EQ(plan.offset[i] % 64, 0U);
    ASSERT_LE(plan.offset[i] + buffers[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool together =
          buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const bool overlap = plan.offset[i] < plan.offset[j] + buffers[j].bytes &&
                           plan.offset[j] < plan.offset[i] + buffers[i].bytes;
      ASSERT_FALSE(together && overlap) << "buffers " << j << " and " << i;
    }
  }
}

TEST(PlanMemory, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

TEST(PlanMemory, ReusesWhatIsDead) {
  // A chain: each step reads the one before.
  std::vector<Lifetime> chain;
  chain.reserve(100);
  for (std::int64_t i = 0; i < 100; ++i) {
    chain.push_back({.bytes = 1024, .first = i, .last = i + 1});
  }
  const MemoryPlan plan = plan_memory(chain);
  expect_sound(chain, plan);
  EXPECT_EQ(plan.bytes, 2048U);
}

TEST(PlanMemory, SmallBuffersFillTheGapsOfDeadLargeOnes) {
  const std::vector<Lifetime> buffers{{.bytes = 4096, .first = 0, .last = 1},
                                      {.bytes = 64, .first = 2, .last = 5},
                                      {.bytes = 100, .first = 2, .last = 5},
                                      {.bytes = 2048, .first = 3, .last = 4}};
  const MemoryPlan plan = plan_memory(buffers);
  expect_sound(buffers, plan);
  EXPECT_EQ(plan.bytes, 4096U);
}

TEST(PlanMemory, BuffersOfOneStepDoNotShare) {
  const std::vector<Lifetime> buffers{{.bytes = 10, .first = 3, .last = 3},
                                      {.bytes = 10, .first = 3, .last = 3}};
  const MemoryPlan plan = plan_memory(buffers);
  EXPECT_NE(plan.offset[0], plan.offset[1]);
}

TEST(PlanMemory, NeverOverlapsAndStaysNearTheLowerBoundProperty) {
  std::minstd_rand random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> buffers(1 + random() % 60);
    for (Lifetime& b : buffers) {
      b.bytes = random() % 20 == 0 ? 0 : 64 * (1 + random() % 50) - random() % 64;
      b.first = static_cast<std::int64_t>(random() % 40);
      b.last = b.first + static_cast<std::int64_t>(random() % 8);
    }
    const MemoryPlan plan = plan_memory(buffers);
    expect_sound(buffers, plan);
    // Each buffer is rounded up to 64 bytes.
    EXPECT_LE(plan.bytes, 2 * (lower_bound(buffers) + 64 * buffers.size()));
  }
}

}  // namespace
}  // namespace difflet::cpu
