// difflet bench compare on results with made-up samples.
#include <fstream>

#include "tests/cli/process.h"

#include "difflet/base/json.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

// A result with one engine whose requests took `seconds`.
Json made_result(const std::vector<double>& seconds) {
  Json scenario{{"name", "x"},
                {"model", {{"folder", "demo"}}},
                {"width", 32},
                {"height", 32},
                {"max_sequence_length", 16},
                {"n", 1},
                {"steps", 2},
                {"dtype", "bf16"},
                {"prompt", "p"},
                {"guidance", 1},
                {"seed", 0},
                {"threads", 1},
                {"plan", {{"tp", 1}}}};
  Json engine{{"engine", "difflet"},
              {"status", "ok"},
              {"message", ""},
              {"peak_rss_bytes", 1000},
              {"ready_rss_bytes", 900}};
  engine["metrics"] = {{"main", {{"wall_s", seconds}, {"cpu_s", seconds}}}};
  return {{"schema", "difflet-bench-1"},
          {"started", "2026-01-01T00:00:00Z"},
          {"machine", {{"cpu", "one"}}},
          {"points", Json::array({{{"scenario", scenario}, {"engines", Json::array({engine})}}})}};
}

class BenchCompare : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const Json& result) {
    std::ofstream(folder_ / name) << result.dump();
    return (folder_ / name).string();
  }
  TemporaryFolder folder_;
  std::string before_ = file("a.json", made_result({1.0, 1.01, 0.99, 1.0, 1.02}));
};

TEST_F(BenchCompare, TheSameIsNoRegression) {
  const ProcessResult same = run_difflet({"bench", "compare", before_, before_});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_NE(same.out.find("main wall"), std::string::npos) << same.out;
  EXPECT_NE(same.out.find("1.000 ["), std::string::npos) << same.out;
}

TEST_F(BenchCompare, ARegressionBeyondTheBoundHasAStatusOfItsOwn) {
  const std::string slow = file("b.json", made_result({1.2, 1.21, 1.19, 1.2, 1.22}));
  expect_refused({"bench", "compare", before_, slow}, 5, "2 regressions beyond 1 + 0.05");
  EXPECT_EQ(run_difflet({"bench", "compare", before_, slow, "--bound", "0.3"}).status, 0);
  EXPECT_EQ(run_difflet({"bench", "compare", slow, before_}).status, 0);
}

TEST_F(BenchCompare, WhatMayBeNoiseIsNoRegression) {
  const std::string noisy = file("b.json", made_result({0.8, 1.5, 0.9, 1.6, 1.2}));
  EXPECT_EQ(run_difflet({"bench", "compare", before_, noisy}).status, 0);
}

TEST_F(BenchCompare, OtherScenariosAreRefusedOtherMachinesNoted) {
  Json other = made_result({1.0});
  other["points"][0]["scenario"]["width"] = 64;
  expect_refused({"bench", "compare", before_, file("b.json", other)}, 2,
                 "measures something else");
  other = made_result({1.0});
  other["points"][0]["scenario"]["name"] = "y";
  expect_refused({"bench", "compare", before_, file("b.json", other)}, 2, "in common");
  other = made_result({1.0});
  other["machine"]["cpu"] = "two";
  const ProcessResult noted = run_difflet({"bench", "compare", before_, file("b.json", other)});
  EXPECT_EQ(noted.status, 0) << noted.err;
  EXPECT_NE(noted.out.find("note: another machine: cpu"), std::string::npos) << noted.out;
}

TEST_F(BenchCompare, FilesAreChecked) {
  expect_refused({"bench", "compare", before_}, 2, "takes two results");
  expect_refused({"bench", "compare", before_, (folder_ / "none").string()}, 3, "none");
  expect_refused({"bench", "compare", before_, file("b.json", Json{{"schema", "x"}})}, 6,
                 "schema: not difflet-bench-1");
  Json wrong = made_result({1.0});
  wrong["points"][0]["engines"][0]["metrics"]["main"]["wall_s"] = {"long"};
  expect_refused({"bench", "compare", before_, file("b.json", wrong)}, 6, "wall_s");
}

}  // namespace
}  // namespace difflet::testing
