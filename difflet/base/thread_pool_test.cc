#include "difflet/base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "difflet/base/cores.h"
#include "difflet/base/testing.h"

namespace difflet {
namespace {

class ThreadPoolSizes : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, RunsEachTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  std::vector<std::atomic<int>> runs(1000);
  std::atomic<int> bad_thread{0};
  pool.run(1000, [&](std::int64_t task, int thread) {
    ++runs[static_cast<std::size_t>(task)];
    bad_thread += thread < 0 || thread >= GetParam() ? 1 : 0;
  });
  for (const auto& r : runs) {
    EXPECT_EQ(r, 1);
  }
  EXPECT_EQ(bad_thread, 0);
}

// Plain memory: the sanitizer sees whether a loop's writes are ordered before the next loop.
TEST_P(ThreadPoolSizes, ManySmallLoops) {
  ThreadPool pool(GetParam());
  std::vector<std::int64_t> cells(7, 0);
  constexpr int kLoops = 20'000;
  for (int loop = 0; loop < kLoops; ++loop) {
    const std::int64_t tasks = 1 + loop % 7;
    pool.run(tasks, [&](std::int64_t task, int) { cells[static_cast<std::size_t>(task)] += loop; });
  }
  std::int64_t expected = 0;
  for (int loop = 0; loop < kLoops; ++loop) {
    expected += static_cast<std::int64_t>(loop) * (1 + loop % 7);
  }
  EXPECT_EQ(std::accumulate(cells.begin(), cells.end(), std::int64_t{0}), expected);
}

TEST_P(ThreadPoolSizes, CarriesAnExceptionAndGoesOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> begun{0};
    EXPECT_THROW(pool.run(100,
                          [&](std::int64_t task, int) {
                            ++begun;
                            if (task == 50) {
                              throw std::runtime_error("task 50");
                            }
                          }),
                 std::runtime_error);
    EXPECT_GE(begun, 1);
    std::atomic<int> after{0};
    pool.run(10, [&](std::int64_t, int) { ++after; });
    EXPECT_EQ(after, 10);
  }
}

TEST_P(ThreadPoolSizes, RefusesNestedUse) {
  ThreadPool pool(GetParam());
  EXPECT_ERROR(pool.run(4, [&](std::int64_t, int) { pool.run(2, [](std::int64_t, int) {}); }),
               ErrorCode::Internal, "ThreadPool::run");
  std::atomic<int> ran{0};
  pool.run(3, [&](std::int64_t, int) { ++ran; });
  EXPECT_EQ(ran, 3);
}

TEST_P(ThreadPoolSizes, NoTaskIsNoCall) {
  ThreadPool pool(GetParam());
  pool.run(0, [](std::int64_t, int) { FAIL(); });
  pool.run(-1, [](std::int64_t, int) { FAIL(); });
}

// Twice as many threads as this machine has cores is among the sizes on small machines.
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolSizes, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPool, OneThreadIsTheCaller) {
  ThreadPool pool(1);
  const auto me = std::this_thread::get_id();
  pool.run(5, [&](std::int64_t, int thread) {
    EXPECT_EQ(thread, 0);
    EXPECT_EQ(std::this_thread::get_id(), me);
  });
}

TEST(ThreadPool, AThreadNeverRunsTwoTasksAtOnce) {
  ThreadPool pool(4);
  std::vector<std::int64_t> per_thread(4, 0);  // no atomics: one owner each
  pool.run(10'000,
           [&](std::int64_t, int thread) { ++per_thread[static_cast<std::size_t>(thread)]; });
  EXPECT_EQ(std::accumulate(per_thread.begin(), per_thread.end(), std::int64_t{0}), 10'000);
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  EXPECT_ERROR(ThreadPool(-1), ErrorCode::InvalidArgument, "-1 threads");
  EXPECT_ERROR(ThreadPool(5000), ErrorCode::InvalidArgument, "5000 threads");
}

TEST(ThreadPool, StartsAndStopsManyTimes) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) {
      pool.run(2, [](std::int64_t, int) {});
    }
  }
}

TEST(ThreadPool, DefaultSizeRespectsTheAffinityMask) {
  EXPECT_EQ(ThreadPool().size(), Cores().usable());
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(Cores().count(), 1);
  EXPECT_EQ(ThreadPool().size(), 1);
  EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Cores, BindsToOneCore) {
  const Cores cores;
  ASSERT_GE(cores.count(), 1);
  EXPECT_LE(cores.usable(), cores.count());
  std::thread([&cores] {
    EXPECT_TRUE(cores.bind(pthread_self(), cores.count() - 1));
    EXPECT_EQ(cores.current(), cores.count() - 1);
    EXPECT_FALSE(cores.bind(pthread_self(), cores.count()));
    cpu_set_t mask;
    EXPECT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(::sched_getcpu()), &mask));
    EXPECT_EQ(Cores().count(), 1);
  }).join();
}

// A worker never stays on the core where the caller runs.
TEST(ThreadPool, WorkersLeaveTheCallersCore) {
  const Cores cores;
  if (cores.count() < 2) {
    GTEST_SKIP() << "one core";
  }
  std::thread([&cores] {
    ThreadPool pool(2);
    for (const int core : {1, 0, 1}) {
      ASSERT_TRUE(cores.bind(pthread_self(), core));
      ASSERT_EQ(cores.current(), core);
      std::atomic<int> together{0};
      // Both threads must be in the loop at once for either to leave it.
      pool.run(2, [&](std::int64_t, int thread) {
        together.fetch_add(1);
        while (together.load() < 2) {
          std::this_thread::yield();
        }
        if (thread == 1) {
          EXPECT_NE(cores.current(), core);
        }
      });
    }
  }).join();
}

}  // namespace
}  // namespace difflet
