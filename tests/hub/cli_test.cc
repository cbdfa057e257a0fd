// The commands, run as a user runs them.
#include <filesystem>
#include <fstream>

#include "tests/cli/process.h"
#include "tests/hub/hub_testing.h"
#include <gmock/gmock.h>

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// The demo checkpoint on a hub.
class HubCommandTest : public HubTest {
 protected:
  void SetUp() override {
    const fs::path repo = folder_ / "root" / "repos" / "org" / "demo";
    fs::create_directories(repo.parent_path());
    fs::copy(DIFFLET_SOURCE_DIR "/demo", repo, fs::copy_options::recursive);
    HubTest::SetUp();
  }
  std::vector<std::string> words(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> all{"/usr/bin/env",
                                 "-u",
                                 "HF_TOKEN",
                                 "HF_ENDPOINT=" + endpoint(),
                                 "HF_HOME=" + (folder_ / "home").string(),
                                 "HF_HUB_CACHE=" + cache().string()};
    all.insert(all.end(), environment.begin(), environment.end());
    all.push_back(DIFFLET_BINARY);
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  ProcessResult run(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {},
                    const ProcessOptions& options = {}) const {
    return Process(words(arguments, environment), options).wait();
  }
};

TEST_F(HubCommandTest, DownloadsAndUsesAModelById) {
  ProcessResult r = run({"eval", "--model", "org/demo", "--component", "vae", "--inputs", "x",
                         "--output", (folder_ / "o").string()});
  EXPECT_EQ(r.status, 3);
  EXPECT_THAT(r.err, HasSubstr("'difflet download org/demo' gets it"));
  r = run({"verify", "--model", DIFFLET_SOURCE_DIR "/demo", "--quantized", "org/int8"});
  EXPECT_EQ(r.status, 3);
  EXPECT_THAT(r.err, HasSubstr("'difflet download org/int8' gets it"));
  r = run({"download", "org/demo"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(fs::exists(r.out.substr(0, r.out.size() - 1) + "/vae/config.json")) << r.out;
  EXPECT_THAT(r.err, HasSubstr("org/demo at "));
  EXPECT_THAT(r.err, HasSubstr("16.6 MB to download"));
  EXPECT_THAT(r.err, HasSubstr("14 of 14 files"));
  for (const char* model : {"org/demo", "org/demo@main"}) {
    const ProcessResult ids =
        Process(words({"tokenize", "--model", model, "--component", "tokenizer"}),
                {.input = "a red fox\n"})
            .wait();
    EXPECT_EQ(ids.status, 0) << ids.err;
    EXPECT_THAT(ids.out, HasSubstr("["));
  }
  r = run({"inspect", "--model", "org/demo@v9"});
  EXPECT_EQ(r.status, 3);
  EXPECT_THAT(r.err, HasSubstr("difflet download org/demo --revision v9"));
  r = run({"clean"});
  EXPECT_EQ(r.status, 0);
  r = run({"cache", "models"});
  EXPECT_THAT(r.out, HasSubstr("16.6 MB    14 files  org/demo"));
  r = run({"cache", "models", "--json"});
  const Json row = parse_json(r.out, "cache models");
  EXPECT_EQ(row["revisions"][0]["refs"][0], "main");
  EXPECT_EQ(run({"inspect", "--model", "org/demo"}, {"HF_HUB_OFFLINE=1"}).status, 0);
}

// Download, compile and generate in one go; the commit is what the artifact knows the model by.
TEST_F(HubCommandTest, RunGoesFromAnIdToAPicture) {
  const std::string store = (folder_ / "store").string();
  const std::vector<std::string> words{
      "run",     "org/demo", "--prompt",    "a red apple", "--output", (folder_ / "x.png").string(),
      "--steps", "2",        "--cache-dir", store};
  std::vector<std::string> dry = words;
  dry.emplace_back("--dry-run");
  ProcessResult r = run(dry);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("16.6 MB to download"));
  EXPECT_THAT(r.err, HasSubstr("known when the download is there"));
  EXPECT_FALSE(fs::exists(folder_ / "x.png"));
  r = run(words);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, (folder_ / "x.png").string() + "\n");
  EXPECT_THAT(r.err, HasSubstr("14 of 14 files"));
  EXPECT_THAT(r.err, HasSubstr("g000001 compiled"));
  r = run(dry, {"HF_HUB_OFFLINE=1"});
  EXPECT_THAT(r.err, HasSubstr("transformer      is compiled"));
  EXPECT_THAT(r.err, Not(HasSubstr("to compile")));
  r = run({"cache", "explain-key", "--model", "org/demo", "--cache-dir", store});
  EXPECT_THAT(r.out, HasSubstr("source.id = \"org/demo\""));
  EXPECT_THAT(r.out, HasSubstr("source.revision = "));
}

TEST_F(HubCommandTest, EventsAreJson) {
  const ProcessResult r = run({"download", kModel, "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::vector<std::string> events;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) {
    events.push_back(parse_json(line, "event")["event"].get<std::string>());
  }
  EXPECT_EQ(events.front(), "plan");
  EXPECT_EQ(events.back(), "done");
  const ProcessResult refused = run({"download", "org/none", "--json"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(parse_json(refused.out, "event")["code"], "not_found");
}

TEST_F(HubCommandTest, TokenComesFromTheEnvironmentOrItsFile) {
  add_file(kModel, ".private", "");
  EXPECT_EQ(run({"download", kModel}).status, 3);
  EXPECT_EQ(run({"download", kModel}, {"HF_TOKEN=good"}).status, 0);
  fs::remove_all(cache());
  fs::create_directories(folder_ / "home");
  std::ofstream(folder_ / "home" / "token") << "good\n";
  EXPECT_EQ(run({"download", kModel}).status, 0);
  fs::remove_all(cache());
  EXPECT_EQ(run({"download", kModel}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN=1"}).status, 3);
}

TEST_F(HubCommandTest, CtrlCLeavesWhatCanBeResumed) {
  set_rules({{{"match", "cdn GET .*00001"}, {"rate", 100000}}});
  Process process(words({"download", kModel}), {});
  process.wait_for("to download");
  while (process.running() && requests("GET", "00001-of-00002.safetensors?signature") == 0) {}
  process.signal(SIGINT);
  ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_LT(r.seconds_after_signal, 2);
  EXPECT_THAT(r.err, HasSubstr("what has arrived is kept"));
  r = run({"download", kModel, "--quiet"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
}

TEST_F(HubCommandTest, CacheThatMayOnlyBeRead) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to run as another user";
  }
  const ProcessOptions nobody{.user = 65534};
  if (run({"--version"}, {}, nobody).status != 0) {
    GTEST_SKIP() << "another user cannot run " << DIFFLET_BINARY;
  }
  ASSERT_EQ(run({"download", kModel}).status, 0);
  for (const fs::path& folder : {folder_.path(), folder_ / "root"}) {
    fs::permissions(folder, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  }
  ProcessResult r = run({"download", kModel}, {}, nobody);
  EXPECT_EQ(r.status, 0) << r.err;
  add_file(kModel, "transformer/config.json", R"({"_class_name": "Changed"})");
  r = run({"download", kModel}, {}, nobody);
  EXPECT_EQ(r.status, 7);
  EXPECT_THAT(r.err, HasSubstr("set HF_HUB_CACHE to a folder that this user may write"));
}

TEST_F(HubCommandTest, FullDiskIsOneLine) {
  const ProcessResult r = run({"download", kModel, "--quiet"}, {}, {.file_limit = 100000});
  EXPECT_EQ(r.status, 5) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_EQ(run({"download", kModel}).status, 0);
  expect_blobs_right();
}

TEST_F(HubCommandTest, WrongWordsAreRefused) {
  for (const auto& [words, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"download"}, "id"},
           {{"download", "a/b/c"}, "not the id of a model"},
           {{"download", "../x"}, "not the id of a model"},
           {{"download", "org/a", "org/b"}, "one ID"},
           {{"download", "org/a", "--revision", "a b"}, "not the name of a branch"}}) {
    const ProcessResult r = run(words);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_THAT(r.err, HasSubstr(part));
  }
  EXPECT_THAT(run({"download", "org/a"}, {"HF_ENDPOINT=nonsense://x"}).err,
              HasSubstr("HF_ENDPOINT"));
}

}  // namespace
}  // namespace difflet::testing
