// difflet verify, and what inspect says about binding times.
#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

Arguments verify(const std::string& model, const Arguments& more) {
  return joined({"verify", "--model", golden_model(model).string(), "--width", "32", "--height",
                 "32", "--max-sequence-length", "16"},
                more);
}

TEST(Verify, EveryBlockOfEveryGoldenPipelineIsClose) {
  for (const char* model : {"schnell", "dev", "true_cfg"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      const ProcessResult result = run_difflet(verify(model, {"--dtype", dtype, "--json"}));
      EXPECT_EQ(result.status, 0) << model << dtype << result.err;
      std::map<std::string, int> blocks;
      for (const Json& row : json_rows(result.out)) {
        ++blocks[row.at("component").get<std::string>()];
        EXPECT_LT(row.at("relative_to_largest").get<double>(), dtype[0] == 'f' ? 1e-5 : 2e-2);
        EXPECT_EQ(row.at("non_finite"), 0);
      }
      EXPECT_EQ(blocks.size(), 4U);
      EXPECT_GE(blocks["transformer"], 3) << "double and single blocks and what is around them";
    }
  }
}

TEST(Verify, LevelsAndGivenInputs) {
  const fs::path tiny = golden_case("flux_transformer/tiny");
  for (const std::string& level : cpu_levels()) {
    const ProcessResult result = run_difflet({"verify", "--model", tiny.string(), "--inputs",
                                              (tiny / "inputs.safetensors").string(), "--dtype",
                                              "f32", "--cpu-level", level});
    EXPECT_EQ(result.status, 0) << level << result.err;
    EXPECT_NE(result.out.find("worst "), std::string::npos) << result.out;
  }
}

TEST(Verify, AToleranceThatNobodyMeetsNamesTheWorstBlock) {
  const ProcessResult result =
      run_difflet(verify("schnell", {"--dtype", "f32", "--tolerance", "1e-12"}));
  EXPECT_EQ(result.status, 6);
  EXPECT_TRUE(result.err.starts_with("difflet: error: cpu differs from the reference by "))
      << result.err;
  EXPECT_NE(result.err.find("1e-12 is allowed"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" at ["), std::string::npos) << result.err;
  // The reference against itself.
  EXPECT_EQ(run_difflet(verify("schnell", {"--backend", "reference", "--tolerance", "0"})).status,
            0);
}

TEST(Inspect, SaysWhatASplitMovesAndSaves) {
  const Arguments inspect{"inspect", "--model", golden_model("schnell").string()};
  const ProcessResult text = run_difflet(inspect);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("by binding time: request "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("each step saves "), std::string::npos) << text.out;
  const ProcessResult json = run_difflet(joined(inspect, {"--json", "--component", "transformer"}));
  const Json row = json_rows(json.out).at(0);
  EXPECT_GT(row.at("split").at("flops_saved_a_step").get<double>(), 0);
  EXPECT_GT(row.at("split").at("weight_bytes_saved_a_step").get<double>(), 0);
  EXPECT_FALSE(row.at("split").at("moved").empty());
  const ProcessResult why = run_difflet(joined(inspect, {"--why", "--component", "transformer"}));
  EXPECT_EQ(why.status, 0) << why.err;
  EXPECT_NE(why.out, "");
}

}  // namespace
}  // namespace difflet::testing
