#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <gmock/gmock.h>

#include "difflet/artifact/generation.h"
#include "difflet/artifact/lock.h"
#include "difflet/artifact/store.h"
#include "difflet/artifact/testing.h"
#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using ::difflet::testing::TemporaryFolder;
using ::testing::ElementsAre;
using testing::identity;
using testing::is_whole;
using ::testing::IsEmpty;
using testing::publish;
using ::testing::UnorderedElementsAre;

std::vector<std::string> paths(const std::vector<Removal::Item>& items) {
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const Removal::Item& item : items) {
    out.push_back(item.path);
  }
  return out;
}

class RemovalTest : public ::testing::Test {
 protected:
  void replace(const Identity& id) {
    publish(store_, id, {.existing = PublishRequest::Existing::Replace});
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      out.push_back(entry.path().string());
    }
    std::ranges::sort(out);
    return out;
  }

  TemporaryFolder folder_;
  ThreadPool threads_{1};
  Store store_{folder_ / "store"};
  const std::string key_ = key_of(identity());
};

TEST_F(RemovalTest, GcTakesWhatIsSupersededAndWhatNobodyRefersTo) {
  EXPECT_THAT(store_.gc(RemovalMode::Delete).removed, IsEmpty());
  const std::string wkey = publish(store_, identity()).manifest().weights.key;
  replace(identity());
  fs::create_directories(store_.root() / "staging/0123456789abcdef/x");
  fs::create_directories(store_.root() / "artifacts/0123456789abcdef/g000001");  // partial
  const std::vector<std::string> before = files();
  const Removal would = store_.gc(RemovalMode::DryRun);
  EXPECT_EQ(before, files());
  const Removal removed = store_.gc(RemovalMode::Delete);
  EXPECT_EQ(paths(would.removed), paths(removed.removed));
  EXPECT_THAT(
      paths(removed.removed),
      UnorderedElementsAre("staging/0123456789abcdef", "artifacts/" + key_ + "/g000001",
                           "artifacts/0123456789abcdef/g000001", "weights/" + wkey + "/g000001"));
  EXPECT_THAT(removed.kept, IsEmpty());
  EXPECT_TRUE(is_whole(*store_.find(identity()).artifact, threads_, ShardMode::Mapped));
  EXPECT_FALSE(fs::exists(store_.root() / "artifacts/0123456789abcdef"));
  EXPECT_TRUE(fs::is_empty(store_.root() / "staging"));
  EXPECT_THAT(store_.gc(RemovalMode::Delete).removed, IsEmpty());
}

TEST_F(RemovalTest, WhatIsInUseStays) {
  std::optional<Artifact> held = publish(store_, identity());
  const std::vector<std::size_t> ranks = {0};
  auto weights = held->open_weights(ranks, ShardMode::Mapped, threads_);
  const std::string wkey = held->manifest().weights.key;
  replace(identity());
  Removal removal = store_.gc(RemovalMode::Delete);
  EXPECT_THAT(removal.removed, IsEmpty());
  EXPECT_THAT(paths(removal.kept), ElementsAre("artifacts/" + key_ + "/g000001"));
  held.reset();
  removal = store_.gc(RemovalMode::Delete);
  EXPECT_THAT(paths(removal.removed), ElementsAre("artifacts/" + key_ + "/g000001"));
  EXPECT_THAT(paths(removal.kept), ElementsAre("weights/" + wkey + "/g000001"));
  weights.clear();
  removal = store_.gc(RemovalMode::Delete);
  EXPECT_THAT(paths(removal.removed), ElementsAre("weights/" + wkey + "/g000001"));
}

TEST_F(RemovalTest, AnotherVersionsArtifactsAndTheirWeightsStay) {
  const Artifact a = publish(store_, identity());
  const fs::path manifest = a.path() / kManifest;
  std::string text = read_text_file(manifest);
  text.replace(text.find("\"schema\":1"), 10, "\"schema\":9");
  write_file_atomic(manifest, std::as_bytes(std::span(text)));
  const Removal removal = store_.gc(RemovalMode::DryRun);
  EXPECT_THAT(removal.removed, IsEmpty());
  EXPECT_THAT(paths(removal.kept), ElementsAre("artifacts/" + key_ + "/g000001"));
}

TEST_F(RemovalTest, RemoveTakesAKeyAndWeightsThatOnlyItUses) {
  EXPECT_ERROR(store_.remove(key_, RemovalMode::Delete), ErrorCode::NotFound, key_);
  const std::string wkey = publish(store_, identity()).manifest().weights.key;
  publish(store_, identity({8}));
  EXPECT_ERROR(store_.remove("../..", RemovalMode::Delete), ErrorCode::NotFound, "'../..'");
  EXPECT_THAT(paths(store_.remove(key_, RemovalMode::Delete).removed),
              ElementsAre("artifacts/" + key_ + "/g000001"));
  const std::string other = key_of(identity({8}));
  const std::vector<std::string> both = {"artifacts/" + other + "/g000001",
                                         "weights/" + wkey + "/g000001"};
  EXPECT_EQ(paths(store_.remove(other, RemovalMode::DryRun).removed), both);
  EXPECT_EQ(paths(store_.remove(other, RemovalMode::Delete).removed), both);
  EXPECT_THAT(store_.list(), IsEmpty());
}

TEST_F(RemovalTest, AWeightSetCanBeRemovedAlone) {
  const std::string wkey = publish(store_, identity()).manifest().weights.key;
  EXPECT_THAT(paths(store_.remove(wkey, RemovalMode::Delete).removed),
              ElementsAre("weights/" + wkey + "/g000001"));
  EXPECT_EQ(store_.find(identity()).artifact->weight_state(), WeightState::Absent);
}

TEST_F(RemovalTest, CleanTakesTheStoreAndNothingElse) {
  EXPECT_THAT(store_.clean(RemovalMode::Delete).removed, IsEmpty());
  publish(store_, identity());
  const std::vector<std::string> before = files();
  EXPECT_THAT(store_.clean(RemovalMode::DryRun).kept, IsEmpty());
  EXPECT_EQ(before, files());
  EXPECT_THAT(store_.clean(RemovalMode::Delete).kept, IsEmpty());
  EXPECT_FALSE(fs::exists(store_.root()));
}

TEST_F(RemovalTest, CleanLeavesForeignFilesAndSaysSo) {
  const fs::path generation = publish(store_, identity()).path();
  const std::string foreign = "x";
  const auto text = std::as_bytes(std::span(foreign));
  write_file_atomic(store_.root() / "notes.txt", text);
  write_file_atomic(store_.root() / "artifacts/README", text);
  write_file_atomic(store_.root() / "locks/mine", text);
  write_file_atomic(generation / "notes", text);
  fs::create_directories(folder_ / "outside");
  write_file_atomic(folder_ / "outside/file", text);
  fs::create_directory_symlink(folder_ / "outside", store_.root() / "weights/0123456789abcdef");
  const Removal removal = store_.clean(RemovalMode::Delete);
  EXPECT_THAT(paths(removal.kept),
              UnorderedElementsAre("notes.txt", "artifacts/README", "locks/mine",
                                   "artifacts/" + key_ + "/g000001", "weights/0123456789abcdef"));
  for (const fs::path& path : {store_.root() / "notes.txt", store_.root() / "artifacts/README",
                               store_.root() / "locks/mine", generation / "notes",
                               folder_ / "outside/file", store_.root() / kMarker}) {
    EXPECT_TRUE(fs::exists(path)) << path;
  }
  EXPECT_FALSE(fs::exists(store_.root() / "staging"));
}

TEST_F(RemovalTest, AFolderThatIsNoStoreIsRefused) {
  fs::create_directories(folder_ / "store");
  EXPECT_THAT(store_.clean(RemovalMode::Delete).removed, IsEmpty());
  const std::string text = "x";
  write_file_atomic(folder_ / "store/artifacts", std::as_bytes(std::span(text)));
  EXPECT_ERROR(store_.clean(RemovalMode::Delete), ErrorCode::InvalidArgument, "not a store");
  EXPECT_ERROR(store_.gc(RemovalMode::Delete), ErrorCode::InvalidArgument, "not a store");
  EXPECT_ERROR(store_.remove(key_, RemovalMode::Delete), ErrorCode::InvalidArgument, "not a store");
}

TEST_F(RemovalTest, CleanWaitsForNobody) {
  std::optional<Publication> writer = store_.publish(identity(), {});
  Removal removal = store_.clean(RemovalMode::Delete);
  EXPECT_EQ(removal.kept.size(), 2U);  // its lock and its staging
  writer->add_program(0, Stage::Step, testing::program(identity(), 0, Stage::Step));
  testing::pack(testing::program(identity(), 0, Stage::Step), 0, writer->begin_shard(0));
  writer->end_shard();
  writer->keep();
  writer.reset();
  EXPECT_TRUE(store_.find(identity()).artifact);
}

// Readers, writers and collectors at once: every reader sees whole artifacts.
TEST_F(RemovalTest, CollectingUnderReadersAndWriters) {
  publish(store_, identity());
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      int bad = 0;
      ThreadPool threads(1);
      for (int round = 0; round < 10; ++round) {
        if (i == 0) {
          replace(identity());
        } else if (i == 1) {
          (void)store_.gc(RemovalMode::Delete);
        } else {
          const Lookup lookup = store_.find(identity());
          bad += lookup.artifact && is_whole(*lookup.artifact, threads, ShardMode::Mapped) ? 0 : 1;
        }
      }
      ::_exit(bad);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace difflet::artifact
