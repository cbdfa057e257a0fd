// difflet bench run with the demo model and an engine that computes nothing. No test looks at times.
#include <csignal>
#include <fstream>

#include "tests/cli/process.h"

#include "difflet/base/file.h"
#include "difflet/base/json.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

class BenchRun : public ::testing::Test {
 protected:
  // A scenario of the demo's VAE at 32x32 with one thread; `change` edits it.
  fs::path scenario(const std::function<void(Json&)>& change = nullptr) {
    Json json{{"name", "tiny-vae"},
              {"model", {{"folder", (fs::path(DIFFLET_SOURCE_DIR) / "demo").string()}}},
              {"component", "vae"},
              {"width", 32},
              {"height", 32},
              {"max_sequence_length", 16},
              {"n", 1},
              {"steps", 2},
              {"dtype", "bf16"},
              {"prompt", "a cat"},
              {"guidance", 3.5},
              {"seed", 0},
              {"threads", 1},
              {"plan", {{"tp", 1}}}};
    if (change) {
      change(json);
    }
    std::ofstream(folder_ / "tiny.json") << json.dump();
    return folder_ / "tiny.json";
  }
  Arguments arguments(const std::string& engines, const Arguments& more = {}) const {
    Arguments all{"bench",      "run",
                  "--scenario", (folder_ / "tiny.json").string(),
                  "--work",     work().string(),
                  "--output",   output().string(),
                  "--pairs",    "2",
                  "--adapters", DIFFLET_FAKE_ADAPTERS,
                  "--engines",  engines,
                  "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  fs::path work() const { return folder_ / "work"; }
  fs::path output() const { return folder_ / "result.json"; }
  Json result() const { return read_json_file(output()); }
  const Json engine(std::size_t index) const { return result()["points"][0]["engines"][index]; }

  TemporaryFolder folder_;
};

TEST_F(BenchRun, PairsOfTwoEnginesAreKeptAndPrinted) {
  scenario();
  const ProcessResult run = run_difflet(arguments("difflet,fake"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("tiny-vae: vae, 32x32, bf16, 1 thread"), std::string::npos) << run.out;
  const Json all = result();
  EXPECT_EQ(all["schema"], "difflet-bench-1");
  EXPECT_TRUE(all["machine"]["cores"].is_number());
  const Json difflet = engine(0);
  EXPECT_EQ(difflet["status"], "ok");
  EXPECT_EQ(difflet["metrics"]["main"]["wall_s"].size(), 2U);
  EXPECT_EQ(difflet["metrics"]["decode"]["cpu_s"].size(), 2U);
  EXPECT_EQ(difflet["metrics"]["compile"]["wall_s"].size(), 1U);
  EXPECT_EQ(difflet["requests"].size(), 2U);
  // Around both requests, of each arithmetic that the decoder computes with.
  EXPECT_GE(difflet["ceiling_gflops"].size(), 1U);
  for (const Json& samples : difflet["ceiling_gflops"]) {
    EXPECT_EQ(samples.size(), 4U);
  }
  EXPECT_GT(difflet["memory"]["weight_bytes"].get<double>(), 1e5);
  EXPECT_NE(run.out.find("ceilings in GFLOP/s a thread"), std::string::npos) << run.out;
  EXPECT_GT(difflet["peak_rss_bytes"].get<double>(), 1e6);
  EXPECT_EQ(difflet["outputs"][0]["shape"], Json::array({1, 3, 32, 32}));
  EXPECT_EQ(difflet["outputs"][0]["finite"], true);
  const Json fake = engine(1);
  EXPECT_EQ(fake["metrics"]["main"]["cpu_s"], Json::array({0.25, 0.25}));
  // Lines that arrive together have no wall time between them, and give no ratio of it.
  EXPECT_GE(all["points"][0]["ratios"].size(), 1U);
  EXPECT_EQ(all["points"][0]["ratios"][0]["pairs"], 2);
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST_F(BenchRun, AnEngineThatTellsItsClockHasWallTimesOfLinesThatArriveTogether) {
  scenario();
  ASSERT_EQ(run_difflet(arguments("difflet,fake:clock")).status, 0);
  const Json fake = engine(1);
  for (const Json& seconds : fake["metrics"]["main"]["wall_s"]) {
    EXPECT_GT(seconds.get<double>(), 0);
  }
  EXPECT_EQ(result()["points"][0]["ratios"].size(), 2U);
}

TEST_F(BenchRun, StepsDropTheFirst) {
  scenario();
  ASSERT_EQ(run_difflet(arguments("fake:steps")).status, 0);
  EXPECT_EQ(engine(0)["metrics"]["step"]["cpu_s"], Json::array({1, 1, 1, 1}));
  EXPECT_EQ(engine(0)["metrics"]["main"]["cpu_s"], Json::array({1, 1}));
}

TEST_F(BenchRun, AWholePipelineHasStagesAndSteps) {
  scenario([](Json& json) { json.erase("component"); });
  const ProcessResult run = run_difflet(arguments("difflet,difflet:pack"));
  ASSERT_EQ(run.status, 0) << run.err;
  for (const std::size_t index : {0U, 1U}) {
    const Json metrics = engine(index)["metrics"];
    for (const char* name : {"main", "run", "encode", "denoise", "decode", "step", "load"}) {
      EXPECT_TRUE(metrics.contains(name)) << name;
    }
    EXPECT_EQ(metrics["step"]["wall_s"].size(), 2U);
    EXPECT_EQ(engine(index)["outputs"][0]["shape"], Json::array({1, 32, 32, 3}));
  }
  EXPECT_FALSE(engine(1)["metrics"].contains("compile"));
}

TEST_F(BenchRun, Int8WeightsAreMeasuredBesideFloatOnes) {
  scenario([](Json& json) { json["component"] = "transformer"; });
  const ProcessResult run = run_difflet(arguments(
      "difflet,difflet:w8a8,difflet:w8a16+pack,difflet:w8a16+modulation", {"--verify-outputs"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto weights = [&](std::size_t index) {
    return engine(index)["memory"]["weight_bytes"].get<double>();
  };
  for (const std::size_t index : {1U, 2U}) {
    EXPECT_LT(weights(index), 0.8 * weights(0));
    EXPECT_GT(result()["points"][0]["differences"][index - 1]["cosine"].get<double>(), 0.99);
  }
  EXPECT_LT(weights(3), weights(2));
  EXPECT_NE(run.out.find("linear w8a8 "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("linear w8a16 "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find(" of difflet's)"), std::string::npos) << run.out;

  scenario();
  EXPECT_EQ(run_difflet(arguments("difflet,difflet:w8a8")).status, 0);
  EXPECT_EQ(engine(1)["status"], "unavailable");
  EXPECT_EQ(engine(1)["message"], "vae has no layers that are quantised");
}

TEST_F(BenchRun, AScenarioOfInt8WeightsIsOneOfItsOwn) {
  scenario([](Json& json) {
    json.erase("component");
    json["quant"] = "w8a8";
  });
  const ProcessResult run = run_difflet(arguments("difflet,difflet:float"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("pipeline, 32x32, 2 steps, bf16 w8a8, 1 thread"), std::string::npos)
      << run.out;
  EXPECT_LT(engine(0)["memory"]["weight_bytes"].get<double>(),
            engine(1)["memory"]["weight_bytes"].get<double>());
  EXPECT_FALSE(engine(0)["profile"].is_null());
  EXPECT_NE(run.out.find(" of the ceiling by CPU time"), std::string::npos) << run.out;
}

TEST_F(BenchRun, OutputsAreCompared) {
  scenario();
  ASSERT_EQ(run_difflet(arguments("difflet,difflet:f32,fake", {"--verify-outputs"})).status, 0);
  const Json differences = result()["points"][0]["differences"];
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_GT(differences[0]["cosine"].get<double>(), 0.99);
  EXPECT_EQ(differences[1]["problem"], "[1, 2] instead of [1, 3, 32, 32]");
}

TEST_F(BenchRun, ASweepIsMeasuredPointByPoint) {
  scenario([](Json& json) { json["sweep"] = {{"size", {"32x32", "64x32"}}}; });
  const ProcessResult run = run_difflet(arguments("difflet", {"--pairs", "1"}));
  EXPECT_EQ(run.status, 2);  // --pairs is given twice
  Arguments once = arguments("difflet,fake");
  once.insert(once.end(), {"--threads", "1,2"});
  const ProcessResult sweep = run_difflet(once);
  ASSERT_EQ(sweep.status, 0) << sweep.err;
  const Json points = result()["points"];
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[1]["scenario"]["width"], 64);
  EXPECT_EQ(points[1]["sweep"]["value"], "64x32");
  EXPECT_EQ(points[2]["scenario"]["threads"], 2);
  EXPECT_NE(sweep.out.find("wall/megapixel"), std::string::npos) << sweep.out;
}

TEST_F(BenchRun, NewProcessesAreMeasuredToTheirFirstOutput) {
  scenario();
  ASSERT_EQ(run_difflet(arguments("difflet", {"--cold", "--starts", "1"})).status, 0);
  EXPECT_EQ(engine(0)["metrics"]["warm"]["wall_s"].size(), 1U);
  const bool cold = engine(0)["metrics"].contains("cold");
  EXPECT_EQ(result()["points"][0]["notes"].empty(), cold);
}

TEST_F(BenchRun, AnEngineThatErrsLosesNothingOfTheOthers) {
  scenario();
  struct Case {
    const char* option;
    const char* message;
  };
  for (const Case& c :
       {Case{"die-early", "exit status 9; it said: fake: no such luck"},
        Case{"crash-late", "signal 6"}, Case{"garbage-late", "standard output"},
        Case{"fail-late", "out of luck"}, Case{"unordered-late", "end of 'run', which is not open"},
        Case{"long-late", "a line of more than"},
        Case{"fast-late", "not this machine's CLOCK_MONOTONIC"},
        Case{"garbage-early", "standard output"}}) {
    const ProcessResult run = run_difflet(arguments(std::string("difflet,fake:") + c.option));
    EXPECT_EQ(run.status, 7) << c.option << run.err;
    EXPECT_NE(run.err.find("these engines failed"), std::string::npos) << run.err;
    EXPECT_EQ(engine(0)["metrics"]["main"]["wall_s"].size(), 2U) << c.option;
    EXPECT_EQ(engine(1)["status"], "failed") << c.option;
    EXPECT_NE(engine(1)["message"].get<std::string>().find(c.message), std::string::npos)
        << engine(1)["message"];
  }
}

TEST_F(BenchRun, WhatCannotRunHereIsNamedAndIsNoFailure) {
  scenario();
  const ProcessResult run = run_difflet(arguments("difflet,fake:unsupported-early"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(engine(1)["status"], "unavailable");
  EXPECT_NE(run.out.find("unavailable: this chip has no flux capacitor"), std::string::npos);
}

TEST_F(BenchRun, AnEngineThatHangsIsEnded) {
  scenario();
  const ProcessResult run = run_difflet(arguments("difflet,fake:hang-late", {"--timeout", "1"}));
  EXPECT_EQ(run.status, 7);
  EXPECT_NE(engine(1)["message"].get<std::string>().find("no line for 1 s"), std::string::npos);
}

TEST_F(BenchRun, PythonThatIsMissingIsSaid) {
  scenario();
  fs::create_directory(folder_ / "adapters");
  std::ofstream(folder_ / "adapters/snake.py") << "";
  Arguments all = arguments("difflet,snake", {"--python", "no-such-python"});
  *(std::find(all.begin(), all.end(), "--adapters") + 1) = (folder_ / "adapters").string();
  EXPECT_EQ(run_difflet(all).status, 0);
  EXPECT_EQ(engine(1)["status"], "unavailable");
  EXPECT_NE(engine(1)["message"].get<std::string>().find("cannot run 'no-such-python'"),
            std::string::npos);
}

TEST_F(BenchRun, ASignalEndsTheEnginesToo) {
  scenario();
  ProcessOptions options;
  options.stop_signal = SIGTERM;
  options.stop_after = "warms up";
  Arguments all = arguments("fake,fake:hang-late");
  std::erase(all, "--quiet");
  EXPECT_EQ(run_difflet(all, options).status, 130);
}

TEST_F(BenchRun, WrongRequestsAreRefused) {
  scenario();
  expect_refused(arguments("diflet"), 2, "did you mean difflet?");
  expect_refused(arguments("difflet,difflet"), 2, "twice");
  expect_refused(arguments("difflet:"), 2, "is not NAME");
  expect_refused(arguments("difflet", {"--threads", "1,x"}), 2, "'x' is not a number");
  scenario([](Json& json) { json["model"] = {{"folder", "no/such/folder"}}; });
  expect_refused(arguments("difflet"), 3, "no folder");
  scenario([](Json& json) { json["widht"] = 3; });
  expect_refused(arguments("difflet"), 6, "widht: unknown");
  scenario([](Json& json) { json.erase("seed"); });
  expect_refused(arguments("difflet"), 6, "seed: missing");
  scenario([](Json& json) { json["sweep"] = {{"prompt", {"a"}}}; });
  expect_refused(arguments("difflet"), 6, "is not a value of size");
  Arguments unknown = arguments("difflet");
  unknown[3] = "flux-vea-512";
  expect_refused(unknown, 3, "did you mean flux-vae-512?");
}

TEST(BenchScenarios, TheMatrixIsReadable) {
  std::size_t count = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(DIFFLET_SOURCE_DIR) / "bench/scenarios")) {
    ++count;
    const Json json = read_json_file(entry.path());
    EXPECT_EQ(json["name"].get<std::string>() + ".json", entry.path().filename().string());
  }
  EXPECT_GE(count, 11U);
}

}  // namespace
}  // namespace difflet::testing
