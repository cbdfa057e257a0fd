// Stores in bad places, links planted in them, and what removal must not touch.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

const std::string kShard = "tp0_sharded_checkpoint.safetensors";
constexpr unsigned kNobody = 65534;

class Places : public StoreTest {
 protected:
  ProcessResult clean(const Arguments& more = {}) const {
    return run_difflet(joined({"clean", "--cache-dir", store_.string()}, more));
  }
};

// As a user whom permissions bind.
class OrdinaryUser : public Places {
 protected:
  void SetUp() override {
    fs::permissions(folder_.path(), fs::perms::all);
    fs::copy(case_, folder_ / "model", fs::copy_options::recursive);
    for (const fs::directory_entry& file : fs::directory_iterator(folder_ / "model")) {
      fs::permissions(file, fs::perms(0644));
    }
    model_[1] = (folder_ / "model").string();
    model_[3] = (folder_ / "model/inputs.safetensors").string();
    user_.user = ::geteuid() == 0 ? kNobody : 0;
    if (run_difflet({"inspect", "--model", model_[1]}, user_).status != 0) {
      GTEST_SKIP() << "another user cannot run " << DIFFLET_BINARY;
    }
  }
  void TearDown() override {
    std::error_code absent;
    for (fs::recursive_directory_iterator all(store_, absent), end; !absent && all != end; ++all) {
      fs::permissions(*all, fs::perms::owner_all, fs::perm_options::add, absent);
    }
    fs::permissions(store_, fs::perms::owner_all, fs::perm_options::add, absent);
  }
  // a-w for the store and all in it.
  void forbid() const {
    std::vector<fs::path> all{store_};
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(store_)) {
      all.push_back(entry.path());
    }
    for (const fs::path& path : all) {
      fs::permissions(path, fs::is_directory(path) ? fs::perms(0555) : fs::perms(0444));
    }
  }
  std::string evaluated_by(const std::string& mode, const Arguments& more = {}) const {
    fs::remove(output_);
    const ProcessResult result = run_difflet(eval_arguments(mode, more), user_);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? digest(output_) : "";
  }

  ProcessOptions user_;
};

TEST_F(OrdinaryUser, AReadOnlyStoreIsUsedButNotChanged) {
  const std::string right = evaluated_by("off");
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  forbid();
  const auto before = contents(store_);
  EXPECT_EQ(evaluated_by("require"), right);
  EXPECT_EQ(evaluated_by("auto"), right);
  EXPECT_EQ(run_difflet({"cache", "ls", "--cache-dir", store_.string()}, user_).status, 0);
  EXPECT_EQ(run_difflet({"cache", "verify", "--cache-dir", store_.string()}, user_).status, 0);
  const std::string key = cache_rows("ls")[0].at("key").get<std::string>();
  const std::string place = store_.string();
  expect_refused(arguments({"compile"}, {"--schedule-capacity", "3"}), 7, place, user_);
  expect_refused({"cache", "rm", "--cache-dir", place, key}, 7, place, user_);
  expect_refused({"clean", "--cache-dir", place}, 7, place, user_);
  EXPECT_EQ(evaluated_by("auto", {"--schedule-capacity", "3"}), right);
  EXPECT_EQ(run_difflet(eval_arguments("require", {"--schedule-capacity", "3"}), user_).status, 3);
  EXPECT_EQ(contents(store_), before);
}

TEST_F(OrdinaryUser, AFolderThatCannotBeWrittenIsRefused) {
  const std::string right = evaluated_by("off");
  fs::create_directory(store_);
  for (const fs::perms perms : {fs::perms(0555), fs::perms(0)}) {
    fs::permissions(store_, perms);
    expect_refused(arguments({"compile"}), 7, store_.string(), user_);
    EXPECT_EQ(evaluated_by("auto"), right);
    EXPECT_EQ(run_difflet(eval_arguments("require"), user_).status, 3);
  }
  fs::permissions(store_, fs::perms(0755));
  EXPECT_EQ(contents(store_).size(), 0U);
}

TEST_F(OrdinaryUser, AManifestThatCannotBeReadIsAMiss) {
  const std::string right = evaluated_by("off");
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  fs::permissions(artifact_file("manifest.json"), fs::perms(0));
  EXPECT_EQ(evaluated_by("auto"), right);
  expect_refused(eval_arguments("require"), 3, "manifest.json", user_);
  EXPECT_EQ(run_difflet({"cache", "ls", "--cache-dir", store_.string()}, user_).status, 0);
  const ProcessResult verify =
      run_difflet({"cache", "verify", "--cache-dir", store_.string()}, user_);
  EXPECT_EQ(verify.status, 6);
  EXPECT_NE(verify.out.find("Permission denied"), std::string::npos) << verify.out;
  fs::permissions(artifact_file("manifest.json"), fs::perms(0644));
  fs::permissions(weights_file(kShard), fs::perms(0));
  EXPECT_EQ(evaluated_by("auto"), right);
  expect_refused(eval_arguments("require"), 3, kShard, user_);
}

TEST_F(Places, WhatIsNoFolderIsRefused) {
  const std::string right = evaluated("off");
  write_bytes(folder_ / "file", "text");
  for (const char* place : {"file", "file/store", "/proc/difflet", "/dev/null", "/proc/self/mem"}) {
    store_ = place[0] == '/' ? fs::path(place) : folder_ / place;
    const ProcessResult result = compile();
    EXPECT_TRUE(result.status == 2 || result.status == 3 || result.status == 7)
        << place << result.status << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(store_.string()), std::string::npos) << result.err;
    EXPECT_EQ(evaluated("auto"), right);
    EXPECT_EQ(run_difflet(eval_arguments("require")).status, 3);
    const ProcessResult listed = cache("ls");
    EXPECT_GE(listed.status, 0) << place;
    EXPECT_EQ(listed.out, "");
  }
  EXPECT_EQ(read_bytes(folder_ / "file"), "text");
}

TEST_F(Places, AFullDiskIsAnErrorThatLeavesNothing) {
  for (const std::size_t limit : {1, 30, 1000, 3000, 20'000, 400'000}) {
    if (limit < 1000) {  // the message is cut too
      EXPECT_EQ(run_difflet(arguments({"compile"}), {.file_limit = limit}).status, 5);
    } else {
      expect_refused(arguments({"compile"}), 5, store_.string(), {.file_limit = limit});
    }
    for (const auto& [name, digest] : contents(store_)) {
      EXPECT_TRUE(digest == "/" || name == "store.json" || name.starts_with("locks/") ||
                  name.starts_with("fingerprints/"))
          << limit << name;
    }
    EXPECT_EQ(cache("verify").status, 0);
  }
  EXPECT_EQ(compiled(), Arguments{"compiled"});
}

TEST_F(Places, AFullFileSystemIsAnError) {
  fs::create_directory(store_);
  const ProcessResult result = run_difflet(arguments({"compile"}), {.small_disk = store_});
  if (result.status == kNoMount) {
    GTEST_SKIP() << "no file system can be mounted";
  }
  EXPECT_EQ(result.status, 5) << result.err;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
}

// Moves one thing after another out of the store and plants a link to it.
TEST_F(Places, LinksInTheStoreAreNotFollowed) {
  const std::string right = evaluated("off");
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  const fs::path artifact = artifact_file("").parent_path();
  const fs::path weights = weights_file("").parent_path();
  const std::string key = artifact.parent_path().filename().string();
  std::vector<fs::path> places;
  for (const fs::path& path :
       {store_ / "store.json", store_ / "artifacts", artifact.parent_path(), artifact,
        artifact / "manifest.json", artifact / "0-step.program", store_ / "weights",
        weights.parent_path(), weights, weights / "manifest.json", weights / kShard,
        store_ / "staging", store_ / "locks", store_ / "locks" / (key + ".lock")}) {
    ASSERT_TRUE(fs::exists(path)) << path;
    places.push_back(path.lexically_relative(store_));
  }
  const fs::path good = folder_ / "good";
  fs::rename(store_, good);
  for (const fs::path& place : places) {
    fs::copy(good, store_, fs::copy_options::recursive);
    const fs::path outside = folder_ / "outside";
    fs::create_directory(outside);
    write_bytes(outside / "canary", "c");
    fs::rename(store_ / place, outside / "moved");
    fs::create_symlink(outside / "moved", store_ / place);
    const auto before = contents(outside);
    EXPECT_EQ(evaluated("auto"), right) << place;
    const ProcessResult required = run_difflet(eval_arguments("require"));
    if (required.status == 0) {
      EXPECT_EQ(digest(output_), right);
    } else {
      EXPECT_EQ(required.status, 3) << place << required.err;
    }
    const bool matters = place.string().starts_with("artifacts") ||
                         place.string().starts_with("weights") || place == "store.json";
    EXPECT_EQ(required.status, matters ? 3 : 0) << place;
    const auto command = [&](const Arguments& words) {
      const ProcessResult result = run_difflet(words);
      EXPECT_TRUE(result.status >= 0 && result.status < 70) << words[0] << place << result.err;
      EXPECT_EQ(contents(outside), before) << words[0] << ' ' << words[1] << place;
    };
    command({"cache", "ls", "--cache-dir", store_.string()});
    command({"cache", "verify", "--cache-dir", store_.string()});
    command(arguments({"compile"}));
    command(arguments({"compile"}, {"--schedule-capacity", "4"}));
    command({"cache", "gc", "--cache-dir", store_.string()});
    command({"cache", "rm", "--cache-dir", store_.string(), key});
    command({"clean", "--cache-dir", store_.string()});
    fs::remove_all(store_);
    fs::remove_all(outside);
  }
}

TEST_F(Places, TheStoreItselfMayBeALink) {
  fs::create_directory(folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", store_);
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  EXPECT_EQ(evaluated("require"), evaluated("off"));
  EXPECT_EQ(clean().status, 0);
  EXPECT_EQ(contents(folder_ / "elsewhere").size(), 0U);
}

TEST_F(Places, ClocksDecideNothing) {
  const std::string right = evaluated("off");
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  for (const int years : {30, -30}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(store_)) {
      fs::last_write_time(entry.path(),
                          fs::file_time_type::clock::now() + std::chrono::years(years));
    }
    EXPECT_EQ(evaluated("require"), right);
    EXPECT_EQ(compiled(), Arguments{"present"});
    EXPECT_EQ(cache("gc").out, "");
    EXPECT_EQ(cache("verify").status, 0);
  }
}

TEST_F(Places, CleanRefusesWhatIsNoStore) {
  fs::create_directories(store_ / "artifacts/0123456789abcdef/g000001");
  write_bytes(store_ / "artifacts/0123456789abcdef/g000001/manifest.json", "{}");
  const auto before = contents(store_);
  expect_refused({"clean", "--cache-dir", store_.string()}, 2, "has no store.json: not a store");
  expect_refused({"cache", "gc", "--cache-dir", store_.string()}, 2, "not a store");
  EXPECT_EQ(contents(store_), before);
  EXPECT_EQ(clean({"--cache-dir", (folder_ / "none").string()}).status, 2) << "given twice";
  store_ = folder_ / "none";
  EXPECT_EQ(clean().status, 0);
  fs::create_directory(store_);
  EXPECT_EQ(clean().status, 0);
}

TEST_F(Places, CleanLeavesForeignFilesAndNamesThem) {
  compiled();
  const std::string artifact = artifact_file("").parent_path().lexically_relative(store_).string();
  const std::vector<std::string> foreign{"notes.txt",          "artifacts/readme",
                                         "weights/x/y",        artifact + "/mine",
                                         "locks/mine.txt",     "staging/mine",
                                         "fingerprints/short", "artifacts/0123456789abcdef/other"};
  for (const std::string& name : foreign) {
    fs::create_directories((store_ / name).parent_path());
    write_bytes(store_ / name, "mine");
  }
  const ProcessResult result = clean();
  EXPECT_EQ(result.status, 0) << result.err;
  const auto after = contents(store_);
  for (const std::string& name : foreign) {
    EXPECT_TRUE(after.contains(name)) << name;
    const std::string folder = name == "weights/x/y" ? "weights/x" : name;
    const std::string said = name.ends_with("/mine") && name != "staging/mine" ? artifact : folder;
    EXPECT_NE(result.out.find("kept " + said), std::string::npos) << name << '\n' << result.out;
  }
  EXPECT_FALSE(fs::exists(store_ / "weights" / weights_file(kShard).filename()));
  std::size_t files = 0;
  for (const auto& [name, digest] : after) {
    files += digest == "/" ? 0 : 1;
  }
  // The artifact with a file that is not its own stays whole: three programs and a manifest.
  EXPECT_LE(files, foreign.size() + 4 + 1) << "and the marker";
}

TEST_F(Places, DryRunsDeleteNothing) {
  compiled();
  fs::copy(artifact_file("").parent_path(),
           artifact_file("").parent_path().parent_path() / "g000009", fs::copy_options::recursive);
  fs::create_directory(store_ / "staging/0123456789abcdef");
  const std::string key = cache_rows("ls")[0].at("key").get<std::string>();
  const auto before = contents(store_);
  for (const Arguments& verb :
       {Arguments{"cache", "gc"}, Arguments{"cache", "rm", key}, Arguments{"clean"}}) {
    const auto run = [&](const Arguments& more) {
      return run_difflet(joined(joined(verb, {"--json", "--cache-dir", store_.string()}), more));
    };
    const ProcessResult said = run({"--dry-run"});
    EXPECT_EQ(said.status, 0) << said.err;
    EXPECT_EQ(contents(store_), before) << verb.back();
    // What is said is what is done.
    fs::copy(store_, folder_ / "copy", fs::copy_options::recursive);
    const ProcessResult done = run({});
    EXPECT_EQ(done.status, 0) << done.err;
    const std::vector<Json> would = json_rows(said.out);
    const std::vector<Json> did = json_rows(done.out);
    EXPECT_GE(would.size(), 1U);
    ASSERT_EQ(would.size(), did.size()) << said.out << done.out;
    for (std::size_t i = 0; i < would.size(); ++i) {
      EXPECT_EQ(would[i].at("path"), did[i].at("path"));
      EXPECT_TRUE(would[i].contains("key"));
      EXPECT_EQ(would[i].at("action"), "would delete");
      EXPECT_EQ(did[i].at("action"), "deleted");
      EXPECT_FALSE(fs::exists(store_ / did[i].at("path").get<std::string>()));
    }
    fs::remove_all(store_);
    fs::rename(folder_ / "copy", store_);
  }
}

}  // namespace
}  // namespace difflet::testing
