// What comes from an artifact is what comes from compiling in the process, bit for bit.
#include <algorithm>

#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

class RoundTrip : public StoreTest {};

// The plan of a case, as options of compile and generate.
struct Plan {
  std::string dtype, backend, level;
  Arguments options() const {
    Arguments all{"--dtype", dtype, "--backend", backend};
    return level.empty() ? all : joined(all, {"--cpu-level", level});
  }
  std::string name() const { return dtype + ' ' + backend + ' ' + level; }
};

// Every level in both types; the second and third model have one type for each.
std::vector<Plan> plans_of(const std::string& model) {
  std::vector<Plan> plans;
  std::vector<std::string> levels = cpu_levels();
  levels.emplace_back("");
  const std::size_t shift = model == "dev" ? 1 : 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const char* const backend = levels[i].empty() ? "reference" : "cpu";
    if (model == "schnell" || (i + shift) % 2 == 0) {
      plans.push_back({"f32", backend, levels[i]});
    }
    if (model == "schnell" || (i + shift) % 2 == 1) {
      plans.push_back({"bf16", backend, levels[i]});
    }
  }
  return plans;
}

class PipelineRoundTrip : public StoreTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string picture(const Arguments& more) const {
    const fs::path file = folder_ / "x.png";
    fs::remove(file);
    const ProcessResult result = run_difflet(
        joined({"generate", "--model", golden_model(GetParam()).string(), "--cache-dir",
                store_.string(), "--quiet", "--prompt", "a lighthouse", "--negative-prompt",
                "blurry", "--true-cfg-scale", "1.5", "--steps", "3", "--output", file.string()},
               joined(size_, more)));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.status == 0 ? digest(file) : "";
  }

  // Chunks of two steps.
  Arguments size_{"--width",
                  "32",
                  "--height",
                  "48",
                  "--max-sequence-length",
                  "16",
                  "--n",
                  "1",
                  "--schedule-capacity",
                  "2"};
};

TEST_P(PipelineRoundTrip, PicturesAreTheSameOnEveryPlan) {
  const std::vector<Plan> plans = plans_of(GetParam());
  for (const Plan& plan : plans) {
    const Arguments options = plan.options();
    const ProcessResult made =
        run_difflet(joined({"compile", "--json", "--model", golden_model(GetParam()).string(),
                            "--cache-dir", store_.string()},
                           joined(size_, options)));
    ASSERT_EQ(made.status, 0) << made.err;
    const std::vector<Json> rows = json_rows(made.out);
    EXPECT_EQ(rows.size(), 4U);
    for (const Json& row : rows) {
      EXPECT_EQ(row.at("result"), "compiled") << plan.name() << row.dump();
    }
    const std::string right = picture(joined(options, {"--artifact", "off"}));
    EXPECT_EQ(picture(joined(options, {"--artifact", "require"})), right) << plan.name();
  }
  EXPECT_EQ(cache_rows("verify").size(), 8 * plans.size());
}

INSTANTIATE_TEST_SUITE_P(Golden, PipelineRoundTrip, ::testing::Values("schnell", "dev", "true_cfg"),
                         [](const auto& each) { return std::string(each.param); });

class ComponentRoundTrip : public StoreTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ComponentRoundTrip, OutputsAreTheSameHoweverWeightsAreRead) {
  std::vector<std::string> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_case(GetParam()))) {
    cases.push_back(entry.path().filename().string());
  }
  ASSERT_GE(cases.size(), 4U);
  std::sort(cases.begin(), cases.end());
  std::vector<std::pair<std::string, const char*>> plans{{cases.front(), "bf16"}};
  for (const std::string& one : cases) {
    plans.emplace_back(one, plans.size() % 2 == 1 ? "f32" : "bf16");
  }
  for (const auto& [one, dtype] : plans) {
    const std::string name = fmt::format("{}/{}", GetParam(), one);
    use(name, dtype);
    EXPECT_EQ(compiled(), Arguments{"compiled"}) << name;
    const std::string right = evaluated("off");
    for (const char* weights : {"map", "copy", "auto"}) {
      EXPECT_EQ(evaluated("require", {"--weights", weights, "--repeat", "2"}), right)
          << name << ' ' << weights;
    }
    EXPECT_EQ(evaluated("auto"), right) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ComponentRoundTrip,
                         ::testing::Values("flux_transformer", "clip_text", "t5_encoder",
                                           "autoencoder_kl"),
                         [](const auto& each) { return std::string(each.param); });

TEST_F(RoundTrip, TheSecondCompileChangesNothing) {
  EXPECT_EQ(compiled(), Arguments{"compiled"});
  const auto before = contents(store_);
  const auto time = fs::last_write_time(artifact_file("manifest.json"));
  EXPECT_EQ(compiled(), Arguments{"present"});
  auto after = contents(store_);
  EXPECT_EQ(fs::last_write_time(artifact_file("manifest.json")), time);
  for (const auto& [name, bytes] : before) {
    if (!name.starts_with("locks/") && !name.starts_with("fingerprints")) {
      EXPECT_EQ(after.at(name), bytes) << name;
    }
    after.erase(name);
  }
  // The weights' fingerprint is kept once their files have not changed for a while.
  std::erase_if(after, [](const auto& item) { return item.first.starts_with("fingerprints"); });
  EXPECT_TRUE(after.empty()) << after.begin()->first;
}

TEST_F(RoundTrip, TimingsSayWhereWeightsCameFrom) {
  compiled();
  const auto said = [&](const Arguments& more) {
    return run_difflet(eval_arguments("require", joined({"--timings"}, more))).err;
  };
  EXPECT_NE(said({"--weights", "map"}).find(" mapped"), std::string::npos);
  EXPECT_NE(said({"--weights", "copy"}).find(" copied"), std::string::npos);
  const std::string auto_text = said({});
  EXPECT_NE(auto_text.find("lookup: artifact "), std::string::npos) << auto_text;
  EXPECT_EQ(auto_text.find("compile"), std::string::npos) << auto_text;
}

}  // namespace
}  // namespace difflet::testing
