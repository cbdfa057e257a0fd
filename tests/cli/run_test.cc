// difflet run on a folder; tests/hub has it with downloads.
#include "tests/cli/process.h"

#include "difflet/base/file.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

class Run : public ::testing::Test {
 protected:
  Arguments arguments(const std::string& output, const Arguments& more = {}) const {
    Arguments all{"run",
                  golden_model("schnell").string(),
                  "--prompt",
                  "a moon",
                  "--output",
                  (folder_ / output).string(),
                  "--steps",
                  "2",
                  "--max-sequence-length",
                  "64",
                  "--cache-dir",
                  (folder_ / "store").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(Run, CompilesOnceAndMakesThePictureOfGenerate) {
  const ProcessResult first = run_difflet(arguments("a.png"));
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, (folder_ / "a.png").string() + "\n");
  EXPECT_NE(first.err.find("g000001 compiled"), std::string::npos) << first.err;
  const ProcessResult second = run_difflet(arguments("b.png"));
  EXPECT_NE(second.err.find("g000001 present"), std::string::npos) << second.err;
  Arguments generate = arguments("c.png", {"--artifact", "off"});
  generate[0] = "generate";
  generate.insert(generate.begin() + 1, "--model");
  ASSERT_EQ(run_difflet(generate).status, 0);
  const std::string picture = read_text_file(folder_ / "a.png");
  EXPECT_EQ(read_text_file(folder_ / "b.png"), picture);
  EXPECT_EQ(read_text_file(folder_ / "c.png"), picture);
}

TEST_F(Run, ADryRunSaysWhatItTakesAndDoesNothing) {
  const ProcessResult result = run_difflet(arguments("a.png", {"--dry-run"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("transformer      to compile, "), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder_ / "a.png"));
  EXPECT_FALSE(fs::exists(folder_ / "store/artifacts"));
  ASSERT_EQ(run_difflet(arguments("a.png")).status, 0);
  const ProcessResult after = run_difflet(arguments("a.png", {"--dry-run"}));
  EXPECT_NE(after.err.find("transformer      is compiled"), std::string::npos) << after.err;
}

TEST_F(Run, WhatIsNoModelIsRefused) {
  Arguments none = arguments("a.png");
  none[1] = "no model, really";
  expect_refused(none, 2, "is neither a folder nor an id");
  Arguments two = arguments("a.png");
  two.insert(two.begin() + 1, "org/name");
  expect_refused(two, 2, "one model");
}

}  // namespace
}  // namespace difflet::testing
