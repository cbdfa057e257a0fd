// A writer killed at any point leaves a store that works.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "difflet/artifact/store.h"
#include "difflet/artifact/testing.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using testing::identity;

constexpr int kKills = 100;

// Publishes one key after another, for ever.
[[noreturn]] void write_for_ever(const Store& store) {
  for (std::int64_t size = 0;; size = (size + 1) % 3) {
    testing::publish(store, identity({size + 1}, 2),
                     {.existing = PublishRequest::Existing::Replace});
    (void)store.gc(RemovalMode::Delete);
  }
}

TEST(Kill, AtARandomPointLeavesAWorkingStore) {
  const ::difflet::testing::TemporaryFolder folder;
  const Store store(folder / "store");
  ThreadPool threads(1);
  std::mt19937 random(7);
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      write_for_ever(store);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<>(0, 100'000)(random)));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    for (const StoreEntry& entry : store.verify(threads)) {
      EXPECT_EQ(entry.problem, "") << i << " " << entry.key << " " << entry.generation;
    }
    for (std::int64_t size = 1; size <= 3; ++size) {
      const Lookup lookup = store.find(identity({size}, 2));
      if (lookup.artifact) {
        EXPECT_TRUE(testing::is_whole(*lookup.artifact, threads, ShardMode::Mapped)) << i;
      } else {
        EXPECT_NE(lookup.reason, "");
      }
    }
    const Artifact made = testing::publish(store, identity({1}, 2));
    EXPECT_TRUE(testing::is_whole(made, threads, ShardMode::Copied)) << i;
  }
  (void)testing::publish(store, identity({9}, 2));
  EXPECT_TRUE(fs::is_empty(store.root() / "staging")) << "the next writer removes what was left";
  EXPECT_TRUE(store.clean(RemovalMode::Delete).kept.empty());
  EXPECT_FALSE(fs::exists(store.root()));
}

}  // namespace
}  // namespace difflet::artifact
