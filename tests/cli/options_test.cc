// The grammar of the command line: help, names, values, pages.
#include <fstream>
#include <sstream>

#include "tests/cli/process.h"

namespace difflet::testing {
namespace {

TEST(CliOptions, VersionIsTheProjects) {
  const ProcessResult result = run_difflet({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "difflet " DIFFLET_VERSION "\n");
  EXPECT_EQ(result.err, "");
}

TEST(CliOptions, EveryCommandHasHelp) {
  const ProcessResult general = run_difflet({"--help"});
  EXPECT_EQ(general.status, 0);
  for (const std::string command : {"generate", "inspect", "eval", "tokenize", "reference"}) {
    EXPECT_NE(general.out.find(command), std::string::npos);
    const ProcessResult help = run_difflet({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("usage: difflet " + command), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
  EXPECT_NE(run_difflet({"generate", "--help"}).out.find("[default: 28]"), std::string::npos);
}

TEST(CliOptions, UnknownNamesAreRefusedWithTheNearest) {
  expect_refused({"generate", "--step", "4"}, 2, "did you mean --steps?");
  expect_refused({"generate", "--gidance=4"}, 2, "did you mean --guidance?");
  expect_refused({"eval", "--prompt", "x"}, 2, "eval has no option --prompt");
  expect_refused({"generate", "-steps", "4"}, 2, "--steps");
  expect_refused({"genrate"}, 2, "did you mean 'generate'?");
  expect_refused({"frobnicate"}, 2, "no command 'frobnicate'");
  expect_refused({}, 2, "no command given");
  expect_refused({"generate", "cat.png"}, 2, "does not take the argument 'cat.png'");
}

TEST(CliOptions, ValuesAreChecked) {
  const std::vector<std::string> base{"generate", "--model",  "m",    "--prompt",
                                      "p",        "--output", "o.png"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refused(with({"--steps", "0"}), 2, "--steps: '0' is not an integer in 1 ... 100000");
  expect_refused(with({"--steps", "-1"}), 2, "--steps: '-1'");
  expect_refused(with({"--steps", "1000000000"}), 2, "--steps: '1000000000'");
  expect_refused(with({"--steps", "4.5"}), 2, "--steps: '4.5'");
  expect_refused(with({"--steps", ""}), 2, "--steps: ''");
  expect_refused(with({"--width", "0"}), 2, "--width: '0' is not an integer in 1 ... 65536");
  expect_refused(with({"--height", "100000"}), 2, "--height: '100000'");
  expect_refused(with({"--guidance", "nan"}), 2, "--guidance: 'nan'");
  expect_refused(with({"--guidance", "high"}), 2, "--guidance: 'high' is not a number");
  expect_refused(with({"--seed", "18446744073709551616"}), 2, "--seed: '18446744073709551616'");
  expect_refused(with({"--seed", "-9223372036854775809"}), 2, "-2^63 ... 2^64 - 1");
  expect_refused(with({"--dtype", "fp8"}), 2, "--dtype: 'fp8' is not bf16 or f32");
  expect_refused(with({"--max-sequence-length", "513"}), 2, "1 ... 512");
  expect_refused(with({"--n", "0"}), 2, "--n: '0'");
  expect_refused(with({"--prompt", "q"}), 2, "--prompt is given twice");
  expect_refused(with({"--json=no"}), 2, "--json");
  expect_refused(with({"--backend", "gpu"}), 2, "unknown backend 'gpu'");
  expect_refused({"generate", "--model", "m", "--output", "o.png"}, 2, "generate needs --prompt");
  expect_refused({"generate", "--model"}, 2, "--model needs a value");
  expect_refused(with({"--steps="}), 2, "--steps: ''");
  expect_refused(with({"--json="}), 2, "--json does not take a value");
  expect_refused(with({"--json=true"}), 2, "--json does not take a value");
  expect_refused(with({"--"}), 2, "no option --; see");
}

// What follows an equals sign is the value, also when it is nothing.
TEST(CliOptions, AnEmptyValueIsNotTheNextWord) {
  expect_refused({"generate", "--prompt=", "--model=m=n", "--output=o.png", "--steps", "4"}, 3,
                 "m=n");
}

std::string read_page(const std::string& name) {
  std::ifstream file(std::filesystem::path(DIFFLET_SOURCE_DIR) / "docs/reference" / name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// After a change of the tables: difflet reference --page cli > docs/reference/cli.md.
TEST(CliOptions, ReferencePagesAreUpToDate) {
  EXPECT_EQ(run_difflet({"reference", "--page", "cli"}).out, read_page("cli.md"));
  EXPECT_EQ(run_difflet({"reference", "--page", "errors"}).out, read_page("errors.md"));
}

TEST(CliOptions, FullStandardOutputIsAnError) {
  ProcessOptions options;
  options.standard_output = "/dev/full";
  expect_refused({"--help"}, 5, "cannot write to standard output", options);
}

TEST(CliOptions, ErrorsThatNobodyReadsKeepTheirStatus) {
  ProcessOptions options;
  options.standard_error = "/dev/full";
  EXPECT_EQ(run_difflet({"frobnicate"}, options).status, 2);
  options.standard_error.clear();
  options.closed_streams = {0, 1, 2};
  EXPECT_EQ(run_difflet({"frobnicate"}, options).status, 2);
  EXPECT_EQ(run_difflet({"--help"}, options).status, 7);
}

}  // namespace
}  // namespace difflet::testing
