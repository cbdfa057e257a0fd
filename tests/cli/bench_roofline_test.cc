// difflet bench roofline.
#include <set>
#include <sstream>

#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> roofline(const std::vector<std::string>& more) {
  std::vector<std::string> words{"bench", "roofline", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json json_of(const ProcessResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  return parse_json(result.out, "roofline");
}

std::set<std::string> programs_of(const Json& component) {
  std::set<std::string> names;
  for (const Json& program : component.at("programs")) {
    names.insert(program.at("program").get<std::string>());
  }
  return names;
}

class BenchRoofline : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string demo_ = (fs::path(DIFFLET_SOURCE_DIR) / "demo").string();
};

TEST_F(BenchRoofline, AloneMeasuresTheMachine) {
  const Json result = json_of(run_difflet(roofline({"--json"})));
  std::set<std::string> arithmetic;
  for (const Json& row : result.at("ceilings").at("arithmetic")) {
    arithmetic.insert(row.at("arithmetic").get<std::string>());
  }
  EXPECT_TRUE(arithmetic.contains("f32 xmm"));
  EXPECT_EQ(result.at("ceilings").at("memory").size(), 9U);  // three caches, 2 page sizes x 3
  EXPECT_TRUE(result.at("components").empty());
}

TEST_F(BenchRoofline, ReportsTheProgramsOfAComponentApartAndWritesATrace) {
  const fs::path trace = folder_ / "trace.json";
  const Json result = json_of(run_difflet(
      roofline({"--model", demo_, "--component", "transformer", "--width", "64", "--height", "64",
                "--max-sequence-length", "16", "--repeat", "2", "--trace", trace, "--json"})));
  const Json& component = result.at("components").at(0);
  EXPECT_EQ(component.at("component"), "transformer");
  EXPECT_EQ(programs_of(component), (std::set<std::string>{"request", "schedule", "step"}));
  const Json& step = component.at("programs").at(2);
  bool linear = false;
  for (const Json& kernel : step.at("kernels")) {
    linear = linear || kernel.at("kernel").get<std::string>().starts_with("linear.");
    EXPECT_GE(kernel.at("bytes").get<double>(), 0);
  }
  EXPECT_TRUE(linear);
  EXPECT_GT(step.at("total").at("flops").get<double>(), 0);
  const auto events = read_json_file(trace).at("traceEvents");
  std::size_t steps = 0;
  for (const Json& event : events) {
    steps += event.at("ph") == "X" ? 1 : 0;
  }
  std::size_t expected = 0;
  for (const Json& program : component.at("programs")) {
    expected += program.at("total").at("steps").get<std::size_t>();
  }
  EXPECT_EQ(steps, expected);
}

TEST_F(BenchRoofline, TakesInputsAndPrintsATable) {
  const fs::path data = fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data/flux_transformer/tiny";
  const ProcessResult result = run_difflet(
      roofline({"--model", data, "--inputs", data / "inputs.safetensors", "--dtype", "f32"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("f32 xmm"), std::string::npos);
  EXPECT_NE(result.out.find("of the compute ceiling"), std::string::npos) << result.out;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST_F(BenchRoofline, RunsAnArtifactWithoutItsCheckpoint) {
  const std::string store = folder_ / "store";
  const ProcessResult made =
      run_difflet({"compile", "--model", demo_, "--component", "vae", "--width", "64", "--height",
                   "64", "--cache-dir", store, "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string key = parse_json(made.out, "made").at("key");
  const Json result =
      json_of(run_difflet(roofline({"--artifact", key, "--cache-dir", store, "--json"})));
  EXPECT_EQ(result.at("components").at(0).at("component"), "vae (" + key + ")");
  EXPECT_EQ(programs_of(result.at("components").at(0)), std::set<std::string>{"step"});
  expect_refused(roofline({"--artifact", "0123456789abcdef", "--cache-dir", store}), 3, "no key");
}

TEST_F(BenchRoofline, RefusesWhatDoesNotGoTogether) {
  expect_refused(roofline({"--component", "vae"}), 2, "--component needs --model");
  expect_refused(roofline({"--trace", folder_ / "t.json"}), 2, "--trace needs");
  expect_refused(roofline({"--artifact", "ab", "--model", demo_}), 2, "without --model");
  expect_refused(roofline({"--model", demo_, "--component", "scheduler"}), 3, "scheduler");
  expect_refused(roofline({"--model", demo_, "--trace", folder_ / "no" / "t.json"}), 3, "no");
  expect_refused(roofline({"--model", demo_, "--component", "vae", "--width", "64", "--height",
                           "64", "--backend", "reference"}),
                 4, "does not measure");
}

TEST_F(BenchRoofline, RefusesBeforeItMeasures) {
  const ProcessResult component =
      run_difflet(roofline({"--model", demo_, "--component", "scheduler"}));
  EXPECT_EQ(component.status, 3);
  EXPECT_EQ(component.out, "");
  const ProcessResult artifact = run_difflet(
      roofline({"--artifact", "0123456789abcdef", "--cache-dir", folder_ / "no-store"}));
  EXPECT_EQ(artifact.status, 3);
  EXPECT_EQ(artifact.out, "");
  const ProcessResult level =
      run_difflet(roofline({"--model", demo_, "--component", "vae", "--width", "64", "--height",
                            "64", "--cpu-level", "amx"}));
  EXPECT_TRUE(level.status == 0 || level.out.empty()) << level.err;  // 0: the chip has it
}

}  // namespace
}  // namespace difflet::testing
