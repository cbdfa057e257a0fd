#include "difflet/artifact/store.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "difflet/artifact/generation.h"
#include "difflet/artifact/testing.h"
#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using ::difflet::testing::TemporaryFolder;
using ::testing::HasSubstr;
using testing::identity;
using testing::is_whole;
using testing::publish;

class StoreTest : public ::testing::Test {
 protected:
  fs::path generation(const char* kind, const std::string& key,
                      const char* name = "g000001") const {
    return store_.root() / kind / key / name;
  }
  fs::path shard(const Artifact& a, std::size_t rank = 0) const {
    return generation(kWeights, a.manifest().weights.key, a.manifest().weights.generation.c_str()) /
           shard_name(rank);
  }
  void expect_miss(const Identity& id, const std::string& part) const {
    const Lookup lookup = store_.find(id);
    EXPECT_FALSE(lookup.artifact);
    EXPECT_THAT(lookup.reason, HasSubstr(part));
  }
  // The next compiler repairs whatever was wrong.
  void expect_repaired(const Identity& id) {
    EXPECT_TRUE(is_whole(publish(store_, id), threads_, ShardMode::Copied));
    const Lookup lookup = store_.find(id);
    ASSERT_TRUE(lookup.artifact) << lookup.reason;
    EXPECT_TRUE(is_whole(*lookup.artifact, threads_, ShardMode::Mapped));
  }
  static void write(const fs::path& path, const std::string& text) {
    write_file_atomic(path, std::as_bytes(std::span(text)));
  }

  TemporaryFolder folder_;
  ThreadPool threads_{1};  // none besides this one, so that tests may fork
  Store store_{folder_ / "store"};
};

TEST_F(StoreTest, FindsWhatWasPublished) {
  const Identity id = identity({4, 8}, 2);
  expect_miss(id, "there is no store at");
  EXPECT_FALSE(fs::exists(store_.root()));
  const Artifact made =
      publish(store_, id, {.schedule_capacity = 64, .metadata = {{"model", "m"}}});
  EXPECT_TRUE(is_whole(made, threads_, ShardMode::Mapped));
  const Lookup lookup = store_.find(id);
  ASSERT_TRUE(lookup.artifact) << lookup.reason;
  EXPECT_EQ(lookup.artifact->key(), key_of(id));
  EXPECT_EQ(lookup.artifact->generation(), "g000001");
  EXPECT_EQ(lookup.artifact->manifest().schedule_capacity, 64);
  EXPECT_EQ(lookup.artifact->manifest().metadata.at("model"), "m");
  EXPECT_TRUE(lookup.artifact->manifest().metadata.contains("created"));
  EXPECT_EQ(lookup.artifact->weight_state(), WeightState::Present);
  EXPECT_EQ(lookup.artifact->ranks(), 2U);
  EXPECT_TRUE(is_whole(*lookup.artifact, threads_, ShardMode::Copied));
  EXPECT_ERROR(lookup.artifact->program(0, Stage::Schedule), ErrorCode::NotFound, "no schedule");
  EXPECT_TRUE(fs::is_empty(store_.root() / "staging"));
}

TEST_F(StoreTest, OthersAreAMissWithAReason) {
  publish(store_, identity({4}));
  const Lookup other_size = store_.find(identity({8}));
  EXPECT_FALSE(other_size.artifact);
  EXPECT_EQ(other_size.others, std::vector{testing::shape_entry(4)});
  EXPECT_THAT(other_size.reason, HasSubstr("there is no artifact " + key_of(identity({8}))));
  Identity newer = identity({4});
  newer.toolchain["difflet"] = "0.2.0";
  expect_miss(newer, R"(differs in toolchain.difflet ("0.1.0", not "0.2.0"))");
}

TEST_F(StoreTest, AnArtifactOfMoreShapesServesEachOfThem) {
  publish(store_, identity({4, 8}));
  const Lookup lookup = store_.find(identity({4}));
  ASSERT_TRUE(lookup.artifact) << lookup.reason;
  EXPECT_EQ(lookup.artifact->shape_index(testing::shape_entry(8)), 0U);
  EXPECT_EQ(lookup.artifact->shape_index(testing::shape_entry(4)), 1U);
  EXPECT_EQ(lookup.artifact->shape_index(testing::shape_entry(5)), std::nullopt);
}

TEST_F(StoreTest, ASecondSizeAddsOnlyItsProgram) {
  const Artifact first = publish(store_, identity({4}));
  const Artifact second = publish(store_, identity({8}));
  EXPECT_EQ(first.manifest().weights, second.manifest().weights);
  EXPECT_TRUE(is_whole(second, threads_, ShardMode::Mapped));
  EXPECT_TRUE(
      store_.find_weights(identity({6}), std::vector<runtime::WeightPiece>{{"shared|plain", 64}}));
  EXPECT_FALSE(
      store_.find_weights(identity({6}), std::vector<runtime::WeightPiece>{{"shared|plain", 128}}));
  EXPECT_FALSE(store_.find_weights(identity({6}, 2),
                                   std::vector<runtime::WeightPiece>{{"shared|plain", 64}}));
}

TEST_F(StoreTest, PublishingTwiceDoesTheWorkOnce) {
  publish(store_, identity());
  EXPECT_TRUE(store_.publish(identity(), {}).found());
  const Artifact again =
      publish(store_, identity(), {.existing = PublishRequest::Existing::Replace});
  EXPECT_EQ(again.generation(), "g000002");
  EXPECT_EQ(again.manifest().weights.generation, "g000002");
  EXPECT_EQ(store_.find(identity()).artifact->generation(), "g000002");
}

TEST_F(StoreTest, GivingUpLeavesNothing) {
  {
    Publication publication = store_.publish(identity(), {});
    publication.add_program(0, Stage::Step, testing::program(identity(), 0, Stage::Step));
    publication.begin_shard(0);
  }
  EXPECT_TRUE(fs::is_empty(store_.root() / "staging"));
  EXPECT_TRUE(store_.list().empty());
  expect_miss(identity(), "there is no artifact");
  EXPECT_TRUE(store_.verify(threads_).empty());
}

TEST_F(StoreTest, DamagedManifestIsAMiss) {
  const Artifact a = publish(store_, identity());
  const fs::path manifest = a.path() / kManifest;
  const std::string good = read_text_file(manifest);
  write(manifest, good.substr(0, good.size() / 2));
  expect_miss(identity(), "cannot be used");
  fs::remove(manifest);
  expect_miss(identity(), "manifest.json");
  std::string newer = good;
  newer.replace(newer.find("\"schema\":1"), 10, "\"schema\":9");
  write(manifest, newer);
  expect_miss(identity(), "schema: 9");
  EXPECT_THAT(store_.list()[0].problem, HasSubstr("schema: 9"));
  expect_repaired(identity());
}

TEST_F(StoreTest, DamagedProgramIsAMiss) {
  const Artifact a = publish(store_, identity());
  fs::resize_file(a.path() / "0-step.program", 3);
  expect_miss(identity(), "has 3 bytes");
  fs::remove(a.path() / "0-step.program");
  expect_miss(identity(), "'" + (a.path() / "0-step.program").string() + "' is missing");
  expect_repaired(identity());
}

TEST_F(StoreTest, TruncatedShardIsAMiss) {
  const Artifact a = publish(store_, identity({4}, 2));
  fs::resize_file(shard(a, 1), 4096);
  expect_miss(identity({4}, 2), "tp1_sharded_checkpoint.safetensors' has 4096 bytes");
  EXPECT_THAT(store_.list()[1].problem, HasSubstr("has 4096 bytes"));
  expect_repaired(identity({4}, 2));
}

TEST_F(StoreTest, AbsentShardIsSaidAndPackedByTheCaller) {
  const Artifact a = publish(store_, identity({4}, 2));
  fs::remove(shard(a, 1));
  const Lookup lookup = store_.find(identity({4}, 2));
  ASSERT_TRUE(lookup.artifact) << lookup.reason;
  EXPECT_EQ(lookup.artifact->weight_state(), WeightState::Absent);
  EXPECT_THAT(lookup.artifact->weight_reason(), HasSubstr("tp1_sharded"));
  EXPECT_EQ(lookup.artifact->program(0, Stage::Step).name, "0-step.program");
  const std::vector<std::size_t> ranks = {0};
  EXPECT_ERROR(lookup.artifact->open_weights(ranks, ShardMode::Mapped, threads_),
               ErrorCode::NotFound, "has no weights");
  fs::remove_all(store_.root() / kWeights);
  EXPECT_EQ(store_.find(identity({4}, 2)).artifact->weight_state(), WeightState::Absent);
  expect_repaired(identity({4}, 2));
}

TEST_F(StoreTest, AnotherWeightSetOfTheSameBaseServes) {
  publish(store_, identity({4}));
  const Artifact b =
      publish(store_, identity({8}), {.existing = PublishRequest::Existing::Replace});
  EXPECT_EQ(b.manifest().weights.generation, "g000002");
  fs::remove(generation(kWeights, b.manifest().weights.key) / shard_name(0));
  const Lookup lookup = store_.find(identity({4}));
  ASSERT_TRUE(lookup.artifact);
  EXPECT_EQ(lookup.artifact->weight_state(), WeightState::Present);
  EXPECT_TRUE(is_whole(*lookup.artifact, threads_, ShardMode::Mapped));
}

TEST_F(StoreTest, PlantedLinksAreNotFollowed) {
  const Artifact a = publish(store_, identity());
  const fs::path outside = folder_ / "outside";
  fs::rename(a.path(), outside);
  fs::create_directory_symlink(outside, a.path());
  expect_miss(identity(), "symbolic link");
  fs::remove(a.path());
  fs::rename(outside, a.path());
  const fs::path program = a.path() / "0-step.program";
  fs::rename(program, folder_ / "p");
  fs::create_symlink(folder_ / "p", program);
  expect_miss(identity(), "not a regular file");
  fs::remove(program);
  fs::rename(folder_ / "p", program);
  EXPECT_TRUE(store_.find(identity()).artifact);
  for (const char* name : {kArtifacts, kWeights, kStaging, kLocks}) {
    fs::rename(store_.root() / name, folder_ / "moved");
    fs::create_directory_symlink(folder_ / "moved", store_.root() / name);
    EXPECT_ERROR(publish(store_, identity(), {.existing = PublishRequest::Existing::Replace}),
                 ErrorCode::DataLoss, "symbolic link");
    (void)store_.find(identity());
    (void)store_.list();
    EXPECT_FALSE(store_.clean(RemovalMode::DryRun).kept.empty());
    fs::remove(store_.root() / name);
    fs::rename(folder_ / "moved", store_.root() / name);
  }
  EXPECT_TRUE(is_whole(*store_.find(identity()).artifact, threads_, ShardMode::Mapped));
}

TEST_F(StoreTest, StoresOfAnotherSchemaAreLeftAlone) {
  publish(store_, identity());
  write(store_.root() / kMarker, "{\"difflet_store\":2}");
  expect_miss(identity(), "schema 2");
  EXPECT_ERROR(store_.publish(identity(), {}), ErrorCode::InvalidArgument, "schema 2");
  EXPECT_ERROR(store_.gc(RemovalMode::Delete), ErrorCode::InvalidArgument, "schema 2");
  EXPECT_ERROR(store_.clean(RemovalMode::Delete), ErrorCode::InvalidArgument, "schema 2");
  EXPECT_TRUE(store_.list().empty());
}

TEST_F(StoreTest, ReadOnlyStoreIsRefusedForWritingAndReadAsEver) {
  publish(store_, identity());
  ::chmod(folder_.path().c_str(), 0755);
  fs::permissions(store_.root(), fs::perms(0555));
  for (const auto& entry : fs::recursive_directory_iterator(store_.root())) {
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    int status = ::setuid(65534) == 0 || ::geteuid() != 0 ? 0 : 1;
    try {
      status |= store_.find(identity()).artifact ? 0 : 2;
      (void)store_.publish(identity({8}), {});
      status |= 4;
    } catch (const Error& e) {
      status |= e.code() == ErrorCode::Unavailable ? 0 : 8;
    }
    ::_exit(status);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fs::permissions(store_.root(), fs::perms(0755));  // so that the folder can be removed
  for (const auto& entry : fs::recursive_directory_iterator(store_.root())) {
    fs::permissions(entry.path(), fs::perms(0755));
  }
}

// A limit on the size of files stands for a disk that takes no more.
TEST_F(StoreTest, FullDiskLeavesNothing) {
  publish(store_, identity({4}, 2));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    int status = 0;
    for (const rlim_t bytes : {0, 30, 200, 5000, 9000}) {  // of a program, manifest or shard
      const rlimit limit{bytes, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        publish(store_, identity({4}, 2), {.existing = PublishRequest::Existing::Replace});
        status = 1;
      } catch (const Error& e) {
        status = e.code() == ErrorCode::ResourceExhausted ? status : 2;
      }
    }
    ::_exit(status);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(store_.list().size(), 2U);
  EXPECT_TRUE(fs::is_empty(store_.root() / kStaging));
  EXPECT_TRUE(is_whole(*store_.find(identity({4}, 2)).artifact, threads_, ShardMode::Mapped));
}

TEST_F(StoreTest, UnreadableManifestIsAMiss) {
  const Artifact a = publish(store_, identity());
  ::chmod(folder_.path().c_str(), 0755);
  fs::permissions(a.path() / kManifest, fs::perms(0));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool plain = ::setuid(65534) == 0 || ::geteuid() != 0;
    const Lookup lookup = store_.find(identity());
    const bool said = lookup.reason.find("Permission denied") != std::string::npos;
    ::_exit(plain && !lookup.artifact && said ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreTest, VerifyFindsAChangedByte) {
  ThreadPool threads(2);
  EXPECT_TRUE(store_.verify(threads).empty());
  const Artifact a = publish(store_, identity({4}, 2));
  fs::create_directories(store_.root() / "staging" / "0123456789abcdef");
  for (const StoreEntry& entry : store_.verify(threads)) {
    EXPECT_EQ(entry.problem, "") << entry.key;
  }
  std::fstream file(shard(a, 1), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  file.put('!');
  file.close();
  EXPECT_TRUE(store_.find(identity({4}, 2)).artifact) << "hashes are not part of a lookup";
  const auto entries = store_.verify(threads);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].problem, "");
  EXPECT_THAT(entries[1].problem, HasSubstr("tp1_sharded_checkpoint.safetensors' is damaged"));
}

TEST_F(StoreTest, ListSaysWhatIsThere) {
  std::optional<Artifact> held = publish(store_, identity({4}));
  publish(store_, identity({4}), {.existing = PublishRequest::Existing::Replace});
  const auto entries = store_.list();
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].kind, EntryKind::Artifact);
  EXPECT_EQ(entries[0].generation, "g000001");
  EXPECT_TRUE(entries[0].in_use);
  EXPECT_FALSE(entries[0].latest);
  EXPECT_TRUE(entries[1].latest);
  EXPECT_FALSE(entries[1].in_use);
  EXPECT_EQ(entries[1].manifest->identity, identity({4}));
  EXPECT_GT(entries[1].bytes, 0U);
  EXPECT_EQ(entries[2].kind, EntryKind::Weights);
  EXPECT_TRUE(entries[2].in_use);
  EXPECT_EQ(entries[2].weights->files.size(), 1U);
  EXPECT_GE(entries[2].bytes, held->weight_bytes());
}

TEST_F(StoreTest, ProcessesThatWantOneKeyDoTheWorkOnce) {
  constexpr int kProcesses = 6;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      const Identity id = identity({4 + i % 2});
      Publication publication = store_.publish(id, {.what = "compiling"});
      int made = 0;
      if (!publication.found()) {
        publication.add_program(0, Stage::Step, testing::program(id, 0, Stage::Step));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        made = 1;
        if (!publication.weights()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          testing::pack(testing::program(id, 0, Stage::Step), 0, publication.begin_shard(0));
          publication.end_shard();
          made = 3;
        }
        publication.keep();
      }
      ::_exit(made);
    }
  }
  int artifacts = 0;
  int weights = 0;
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    artifacts += WEXITSTATUS(status) & 1;
    weights += WEXITSTATUS(status) >> 1;
  }
  EXPECT_EQ(artifacts, 2);
  EXPECT_EQ(weights, 1);
}

TEST_F(StoreTest, AWaiterIsToldForWhom) {
  std::optional<Publication> first = store_.publish(identity(), {.what = "compiling TestModel"});
  std::string said;
  EXPECT_ERROR(store_.publish(identity(), {.waiting =
                                               [&](const std::string& holder) {
                                                 said = holder;
                                                 fail(ErrorCode::Cancelled, "enough");
                                               }}),
               ErrorCode::Cancelled, "enough");
  EXPECT_THAT(said, HasSubstr(fmt::format("process {} on ", ::getpid())));
  EXPECT_THAT(said, HasSubstr(", compiling TestModel, since 20"));
  first.reset();
  EXPECT_FALSE(store_.publish(identity(), {}).found());
}

}  // namespace
}  // namespace difflet::artifact
