// A store whose files are damaged: a miss, said and repaired.
#include <algorithm>

#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

const std::string kShard = "tp0_sharded_checkpoint.safetensors";

class Damage : public StoreTest {
 protected:
  void SetUp() override { EXPECT_EQ(compiled(), Arguments{"compiled"}); }

  // Puts bytes in the place of an artifact's file, one variant a generation on top of the good one;
  // gives for each its name and what verify says about it.
  std::map<std::string, std::string> verified(const std::string& file,
                                              const std::vector<std::string>& variants) {
    const fs::path good = artifact_file(file).parent_path();
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const fs::path next = good.parent_path() / fmt::format("g{:06}", i + 2);
      fs::copy(good, next);
      write_bytes(next / file, variants[i]);
    }
    const ProcessResult result = cache("verify", {"--json"});
    EXPECT_EQ(result.status, 6) << result.err;
    std::map<std::string, std::string> problems;
    for (const Json& row : json_rows(result.out)) {
      if (row.at("kind") == "artifact") {
        problems[row.at("generation").get<std::string>()] = row.at("problem").get<std::string>();
      }
    }
    EXPECT_EQ(problems.size(), variants.size() + 1);
    fs::remove_all(good.parent_path() / "g000001");
    return problems;
  }
  // With these as the only generations: auto is right, require right or refused.
  void expect_right_or_refused() {
    const std::string right = evaluated("off");
    EXPECT_EQ(evaluated("auto"), right);
    fs::remove(output_);
    const ProcessResult result = run_difflet(eval_arguments("require"));
    if (result.status == 0) {
      EXPECT_EQ(digest(output_), right);
    } else {
      EXPECT_EQ(result.status, 3) << result.err;
      EXPECT_FALSE(fs::exists(output_));
    }
    EXPECT_EQ(compiled().size(), 1U);
    EXPECT_EQ(evaluated("require"), right);
  }
};

TEST_F(Damage, WeightsThatAreAbsentArePackedFromTheCheckpoint) {
  const std::string right = evaluated("off");
  for (const bool whole : {false, true}) {
    const fs::path shard = weights_file(kShard);
    fs::remove_all(whole ? shard.parent_path() : shard);
    const ProcessResult result = run_difflet(eval_arguments("auto"));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(digest(output_), right);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find("packing them from the checkpoint"), std::string::npos) << result.err;
    expect_refused(eval_arguments("require"), 3,
                   whole ? "there is no '" : fmt::format("{}' is missing", kShard));
    const std::vector<Json> rows =
        json_rows(run_difflet(arguments({"cache", "lookup", "--json"})).out);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].at("hit"), true);
    EXPECT_EQ(rows[0].at("weights"), false);
    EXPECT_EQ(compiled(), Arguments{"compiled"});
    EXPECT_EQ(evaluated("require"), right);
    EXPECT_EQ(cache("gc").status, 0);
    EXPECT_EQ(cache_rows("verify").size(), 2U);
  }
}

TEST_F(Damage, OfAShardIsAMiss) {
  const fs::path shard = weights_file(kShard);
  write_bytes(shard, read_bytes(shard).substr(0, 5000));
  expect_damage("has 5000 bytes, its manifest says", "has 5000 bytes", "has 5000 bytes");
  flip_bit(weights_file(kShard), 100);  // in its header
  expect_damage("packing them from the checkpoint", "has no packed weight", "SHA-256");
  const std::size_t size = fs::file_size(weights_file(kShard));
  write_bytes(weights_file(kShard), std::string(size, 'x'));
  expect_damage("packing them from the checkpoint", kShard, "SHA-256");
  fs::resize_file(weights_file(kShard), 0);
  expect_damage("has 0 bytes", "has 0 bytes", "has 0 bytes");
  fs::remove(weights_file(kShard));
  fs::create_directory(weights_file(kShard));
  expect_damage("not a regular file", "not a regular file", "not a regular file");
}

// Sizes are checked at each start, bytes of weights by verify alone.
TEST_F(Damage, InsideAShardIsFoundByVerify) {
  const std::string right = evaluated("require");
  const fs::path shard = weights_file(kShard);
  flip_bit(shard, fs::file_size(shard) / 2);
  const ProcessResult verify = cache("verify", {"--json"});
  EXPECT_EQ(verify.status, 6) << verify.err;
  EXPECT_NE(verify.err.find("1 entry is damaged"), std::string::npos) << verify.err;
  std::string key;
  for (const Json& row : json_rows(verify.out)) {
    const auto problem = row.at("problem").get<std::string>();
    if (!problem.empty()) {
      EXPECT_EQ(row.at("kind"), "weights");
      EXPECT_NE(problem.find(kShard), std::string::npos);
      key = row.at("key").get<std::string>();
    }
  }
  // As the message says.
  EXPECT_EQ(cache("rm", {key}).status, 0);
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  EXPECT_EQ(cache("verify").status, 0);
  EXPECT_EQ(evaluated("require"), right);
}

TEST_F(Damage, OfAProgramIsAMiss) {
  for (const char* name : {"0-request.program", "0-schedule.program", "0-step.program"}) {
    const fs::path file = artifact_file(name);
    const std::string bytes = read_bytes(file);
    write_bytes(file, bytes.substr(0, bytes.size() / 2));
    expect_damage("bytes, its manifest says", name, name);
    flip_bit(artifact_file(name), bytes.size() / 3);
    expect_damage("SHA-256", name, name);
    fs::remove(artifact_file(name));
    expect_damage("is missing", name, name);
  }
}

TEST_F(Damage, OfAManifestIsAMiss) {
  const std::string good = read_bytes(artifact_file("manifest.json"));
  const auto damaged = [&](const std::string& text, const std::string& part) {
    write_bytes(artifact_file("manifest.json"), text);
    expect_damage("cannot be used: ", part, part);
  };
  damaged("", "manifest.json");
  damaged("{}", "schema: missing");
  damaged("[1,2]", "schema: missing");
  damaged(std::string(100'000, '['), "manifest.json");
  damaged(std::string(good.size(), '\0'), "manifest.json");
  damaged(good + "{}", "manifest.json");
  fs::remove(artifact_file("manifest.json"));
  expect_damage("no artifact", "no artifact", "manifest.json");
  fs::remove(artifact_file("manifest.json"));
  fs::create_directory(artifact_file("manifest.json"));
  expect_damage("manifest.json", "manifest.json", "manifest.json");
}

// Another version's artifact is a miss, but it stays.
TEST_F(Damage, AManifestOfAnotherSchemaIsAMissThatStays) {
  const std::string right = evaluated("off");
  const fs::path file = artifact_file("manifest.json");
  std::string text = read_bytes(file);
  text.at(text.find("\"schema\":1") + 9) = '9';
  write_bytes(file, text);
  EXPECT_EQ(evaluated("auto"), right);
  expect_refused(eval_arguments("require"), 3, "schema: 9, this version reads 1");
  EXPECT_EQ(compiled().size(), 1U);
  EXPECT_EQ(evaluated("require"), right);
  const ProcessResult gc = cache("gc");
  EXPECT_EQ(gc.status, 0) << gc.err;
  EXPECT_NE(gc.out.find("kept artifacts/"), std::string::npos) << gc.out;
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(Damage, OfTheWeightsManifestIsAMiss) {
  const std::string good = read_bytes(weights_file("manifest.json"));
  write_bytes(weights_file("manifest.json"), good.substr(0, good.size() / 2));
  expect_damage("manifest.json", "manifest.json", "manifest.json");
  std::string other = good;
  other.at(other.find(R"("sha256":")") + 10) = 'x';
  write_bytes(weights_file("manifest.json"), other);
  expect_damage("manifest.json", "manifest.json", "manifest.json");
}

TEST_F(Damage, ManifestsCutAnywhereAreMisses) {
  const std::string good = read_bytes(artifact_file("manifest.json"));
  std::vector<std::string> variants;
  for (std::size_t end = 0; end < good.size() - 1; end += 50) {
    variants.push_back(good.substr(0, end));
  }
  for (const auto& [generation, problem] : verified("manifest.json", variants)) {
    EXPECT_EQ(problem.empty(), generation == "g000001") << generation << problem;
  }
  expect_right_or_refused();
}

TEST_F(Damage, ManifestsWithAFlippedBitGiveTheRightOutputOrNone) {
  fs::remove_all(store_);
  use("t5_encoder/relu", "bf16");  // a short one
  compiled();
  const std::string good = read_bytes(artifact_file("manifest.json"));
  const std::string right = evaluated("off");
  std::size_t unseen = 0;
  const std::size_t stride = kSanitized ? 370 : 37;
  for (std::size_t at = 5; at < good.size(); at += stride) {
    std::string text = good;
    text[at] = static_cast<char>(text[at] ^ (1 << at % 8));
    write_bytes(artifact_file("manifest.json"), text);
    EXPECT_EQ(evaluated("auto"), right) << at;
    fs::remove(output_);
    const ProcessResult result = run_difflet(eval_arguments("require"));
    if (result.status == 0) {
      EXPECT_EQ(digest(output_), right) << at;
      ++unseen;
    } else {
      EXPECT_EQ(result.status, 3) << at << result.err;
      EXPECT_FALSE(fs::exists(output_));
    }
  }
  EXPECT_LT(unseen * stride, 300U) << "only what is for people may change unseen";
}

TEST_F(Damage, AForeignStoreIsLeftAlone) {
  const std::string right = evaluated("off");
  for (const char* marker : {"{\"difflet_store\":99}\n", "", "{}", "\xff\xfe"}) {
    write_bytes(store_ / "store.json", marker);
    const auto before = contents(store_);
    EXPECT_EQ(evaluated("auto"), right);
    expect_refused(eval_arguments("require"), 3, "store.json");
    expect_refused(arguments({"compile"}), 2, "store.json");
    for (const char* verb : {"gc"}) {
      EXPECT_EQ(cache(verb).status, 2) << verb;
    }
    expect_refused({"clean", "--cache-dir", store_.string()}, 2, "store.json");
    EXPECT_EQ(contents(store_), before);
  }
}

}  // namespace
}  // namespace difflet::testing
