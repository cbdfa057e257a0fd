// Artifacts that a process uses while others remove, replace or compile.
#include <algorithm>
#include <csignal>
#include <memory>

#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

class InUse : public StoreTest {
 protected:
  void SetUp() override {
    for (const char* mode : {"off", "require"}) {
      if (std::string(mode) == "require") {
        const ProcessResult made = run_difflet(joined({"compile", "--json"}, model_options()));
        ASSERT_EQ(made.status, 0) << made.err;
        for (const Json& row : json_rows(made.out)) {
          keys_.push_back(row.at("key").get<std::string>());
        }
      } else {
        EXPECT_EQ(run_difflet(generate("off")).status, 0);
        right_ = digest(picture_);
        fs::remove(picture_);
      }
    }
  }
  Arguments model_options() const {
    return {"--model",
            golden_model("schnell").string(),
            "--cache-dir",
            store_.string(),
            "--width",
            "32",
            "--height",
            "32",
            "--max-sequence-length",
            "16"};
  }
  Arguments generate(const std::string& mode) const {
    return joined({"generate", "--prompt", "p", "--steps", "40", "--artifact", mode, "--output",
                   picture_.string()},
                  model_options());
  }
  // In its first steps, and not going on.
  std::unique_ptr<Process> frozen_generate(const Arguments& more = {}) const {
    auto process = std::make_unique<Process>(difflet_words(joined(generate("require"), more)),
                                             ProcessOptions{});
    process->wait_for("step 1/");
    process->signal(SIGSTOP);
    EXPECT_TRUE(process->running());
    return process;
  }
  void expect_ends_well(Process& process) const {
    process.signal(SIGCONT);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(digest(picture_), right_);
    fs::remove(picture_);
  }
  std::size_t generations() const {
    std::size_t count = 0;
    for (const auto& [name, digest] : contents(store_)) {
      count += name.ends_with("/manifest.json") ? 1 : 0;
    }
    return count;
  }

  fs::path picture_ = folder_ / "x.png";
  std::vector<std::string> keys_;
  std::string right_;
};

TEST_F(InUse, WhatAProcessUsesStaysUntilItEnds) {
  for (const Arguments& weights : {Arguments{"--weights", "map"}, Arguments{"--weights", "copy"}}) {
    const auto process = frozen_generate(weights);
    const std::string& key = keys_.at(2);  // the transformer's
    bool used = false;
    for (const Json& row : cache_rows("ls")) {
      used = used || (row.at("key") == key && row.at("in_use") == true);
    }
    EXPECT_TRUE(used);
    const ProcessResult rm = cache("rm", {key});
    EXPECT_EQ(rm.status, 0) << rm.err;
    EXPECT_NE(rm.out.find(fmt::format("kept artifacts/{}/g000001 (", key)), std::string::npos)
        << rm.out;
    EXPECT_NE(rm.out.find(": in use)"), std::string::npos) << rm.out;
    EXPECT_EQ(cache("gc").status, 0);
    EXPECT_EQ(run_difflet({"clean", "--dry-run", "--cache-dir", store_.string()}).status, 0);
    EXPECT_EQ(generations(), 8U);
    expect_ends_well(*process);
  }
  const ProcessResult rm = cache("rm", {keys_.at(2)});
  EXPECT_NE(rm.out.find("deleted artifacts/"), std::string::npos) << rm.out;
  EXPECT_NE(rm.out.find("deleted weights/"), std::string::npos) << rm.out;
  EXPECT_EQ(generations(), 6U);
}

TEST_F(InUse, CleanKeepsAStoreThatIsInUse) {
  const auto process = frozen_generate();
  const ProcessResult clean = run_difflet({"clean", "--cache-dir", store_.string()});
  EXPECT_EQ(clean.status, 0) << clean.err;
  EXPECT_NE(clean.out.find("in use"), std::string::npos) << clean.out;
  EXPECT_TRUE(fs::exists(store_ / "store.json"));
  expect_ends_well(*process);
  EXPECT_EQ(run_difflet({"clean", "--cache-dir", store_.string()}).status, 0);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(InUse, ASupersededGenerationStaysWhileItIsUsed) {
  const auto process = frozen_generate();
  const fs::path old = store_ / "artifacts" / keys_.at(2) / "g000001";
  flip_bit(old / "0-step.program", 200);
  EXPECT_EQ(run_difflet(joined({"compile"}, model_options())).status, 0);
  EXPECT_TRUE(fs::exists(old.parent_path() / "g000002"));
  const ProcessResult gc = cache("gc");
  EXPECT_NE(gc.out.find("g000001"), std::string::npos) << gc.out;
  EXPECT_TRUE(fs::exists(old));
  expect_ends_well(*process);
  EXPECT_EQ(cache("gc").status, 0);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(run_difflet(generate("require")).status, 0);
  EXPECT_EQ(digest(picture_), right_);
}

// Everything at once, for a while: nobody fails, every output is right.
TEST_F(InUse, RemovalCompilingAndUsingAtTheSameTime) {
  const std::string place = store_.string();
  const std::string right = evaluated("off");
  const int rounds = kSanitized ? 3 : 12;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::pair<std::unique_ptr<Process>, fs::path>> all;
    const auto start = [&](const Arguments& words, const fs::path& output = {}) {
      all.emplace_back(std::make_unique<Process>(difflet_words(words), ProcessOptions{}), output);
    };
    start(arguments({"compile"}));
    start({"cache", "gc", "--cache-dir", place});
    for (int i = 0; i < 2; ++i) {
      const fs::path output = folder_ / fmt::format("{}.safetensors", i);
      start(arguments({"eval"}, {"--output", output.string(), "--quiet"}), output);
    }
    start({"cache", "verify", "--cache-dir", place});
    start(round % 3 == 0 ? Arguments{"clean", "--cache-dir", place}
                         : Arguments{"cache", "ls", "--cache-dir", place});
    for (const auto& [process, output] : all) {
      const ProcessResult result = process->wait();
      EXPECT_EQ(result.status, 0) << round << result.err << result.out;
      if (!output.empty()) {
        EXPECT_EQ(digest(output), right) << round;
      }
    }
  }
  EXPECT_EQ(compiled().size(), 1U);
  EXPECT_EQ(evaluated("require"), right);
}

}  // namespace
}  // namespace difflet::testing
