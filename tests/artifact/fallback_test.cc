// What --artifact auto, require and off do when there is no artifact, or not the right one.
#include <algorithm>

#include "tests/artifact/store_testing.h"

#include "difflet/io/safetensors.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

// The command between the quotes before `after`.
std::string told_command(const std::string& text, const std::string& after) {
  const std::size_t begin = text.find("'difflet compile ");
  const std::size_t end = text.find("' " + after, begin);
  EXPECT_TRUE(begin != std::string::npos && end != std::string::npos) << text;
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

class Fallback : public StoreTest {
 protected:
  Arguments generate(const std::string& mode, const Arguments& more = {}) const {
    return joined({"generate", "--model", pipeline_.string(), "--cache-dir", store_.string(),
                   "--artifact", mode, "--quiet", "--prompt", "p", "--steps", "2",
                   "--max-sequence-length", "16", "--output", picture_.string()},
                  more);
  }
  std::string pictured(const std::string& mode, const Arguments& more = {}) const {
    const ProcessResult result = run_difflet(generate(mode, more));
    EXPECT_EQ(result.status, 0) << result.err;
    return digest(picture_);
  }
  Arguments compile_pipeline(const Arguments& more = {}) const {
    const ProcessResult result =
        run_difflet(joined({"compile", "--json", "--model", pipeline_.string(), "--cache-dir",
                            store_.string(), "--max-sequence-length", "16"},
                           more));
    EXPECT_EQ(result.status, 0) << result.err;
    Arguments results;
    for (const Json& row : json_rows(result.out)) {
      results.push_back(row.at("result").get<std::string>());
    }
    return results;
  }

  fs::path pipeline_ = golden_model("schnell");
  fs::path picture_ = folder_ / "x.png";
};

TEST_F(Fallback, AutoSaysItInOneLineAndLeavesNoStore) {
  const std::string right = evaluated("off");
  const ProcessResult result = run_difflet(eval_arguments("auto"));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(digest(output_), right);
  EXPECT_TRUE(result.err.starts_with("tiny: no artifact (there is no artifact store in "))
      << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(fs::exists(store_));
  EXPECT_EQ(run_difflet(eval_arguments("auto", {"--quiet"})).err, "");
  EXPECT_EQ(run_difflet(eval_arguments("off")).err, "");
}

TEST_F(Fallback, TheCommandThatRequirePrintsMakesTheArtifactOfEval) {
  // A path that a shell must not take apart.
  const fs::path odd = folder_ / "it's a $HOME \"model\"; *";
  fs::create_directory(odd);
  copy_model("schnell", odd / "flux");
  io::write_safetensors(odd / "z.safetensors", {{"z", HostTensor(DType::F32, {1, 2, 4, 6})}});
  store_ = odd / "the store";
  model_ = {"--model",  (odd / "flux").string(),         "--component", "vae",
            "--inputs", (odd / "z.safetensors").string()};
  const std::string right = evaluated("off");
  const ProcessResult refused = run_difflet(eval_arguments("require"));
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  const ProcessResult made = run_shell(told_command(refused.err, "makes it"));
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(evaluated("require"), right);
}

TEST_F(Fallback, TheCommandThatRequirePrintsMakesTheArtifactOfGenerate) {
  pipeline_ = folder_ / "a 'model' of \\ mine";
  copy_model("dev", pipeline_);
  for (const Arguments& more :
       {Arguments{"--width", "32", "--height", "48", "--cpu-level", "scalar"},
        Arguments{"--shapes", "32x48,64x32", "--dtype", "f32", "--width", "64", "--height", "32"},
        Arguments{"--n", "2", "--schedule-capacity", "7"}}) {
    const std::string right = pictured("off", more);
    const ProcessResult refused = run_difflet(generate("require", more));
    EXPECT_EQ(refused.status, 3);
    const ProcessResult made = run_shell(told_command(refused.err, "makes it"));
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_EQ(pictured("require", more), right);
  }
}

TEST_F(Fallback, AnotherPlanIsAMissThatSaysWhatDiffers) {
  compiled();
  expect_refused(eval_arguments("require", {"--backend", "reference"}), 3,
                 R"(differs in backend ("cpu", not "reference"))");
  expect_refused(eval_arguments("require", {"--schedule-capacity", "5"}), 3,
                 "differs in options.schedule_capacity (32, not 5)");
  model_.back() = "bf16";
  expect_refused(eval_arguments("require"), 3, "differs in dtype");
}

TEST_F(Fallback, SeveralSizesAreInOneArtifact) {
  const Arguments results = compile_pipeline({"--shapes", "32x32,48x32"});
  EXPECT_EQ(results, Arguments(4, "compiled"));
  const auto size = [](const char* width) { return Arguments{"--width", width, "--height", "32"}; };
  for (const char* width : {"32", "48"}) {
    const std::string right = pictured("off", size(width));
    EXPECT_EQ(pictured("require", size(width)), right) << width;
    EXPECT_EQ(pictured("require", joined(size(width), {"--shapes", "48x32,32x32"})), right);
  }
  // Without a size it is the first one's.
  const std::string right = pictured("off", size("48"));
  EXPECT_EQ(pictured("require", {"--shapes", "48x32,32x32"}), right);
  expect_refused(generate("require", joined(size("64"), {"--shapes", "32x32,48x32"})), 2,
                 "64x32 is not among the sizes 32x32, 48x32");
  expect_refused(generate("require", size("64")), 3, "hidden_states[1,64,8] img_ids[64,3]");
  EXPECT_EQ(compile_pipeline({"--width", "48", "--height", "32"}), Arguments(4, "present"));
}

TEST_F(Fallback, AnotherSizeAddsOnlyItsPrograms) {
  compile_pipeline({"--width", "32", "--height", "32"});
  const auto before = contents(store_);
  const Arguments results = compile_pipeline({"--width", "48", "--height", "32"});
  EXPECT_EQ(results[0], "present");
  EXPECT_EQ(results[1], "present");
  EXPECT_EQ(results[2], "compiled, weights shared");
  std::size_t files = 0;
  for (const auto& [name, bytes] : contents(store_)) {
    if (name.starts_with("artifacts/") && bytes.size() > 1 && !before.contains(name)) {
      ++files;
    }
  }
  EXPECT_EQ(files, 4U + 2U) << "three programs and one, two manifests";
  const ProcessResult listed = cache("ls");
  const std::string flux = "weights of FluxTransformer2DModel";
  EXPECT_NE(listed.out.find(flux), std::string::npos);
  EXPECT_EQ(listed.out.find(flux), listed.out.rfind(flux)) << listed.out;
}

TEST_F(Fallback, LookupSaysBeforehandWhatWillHappen) {
  const Arguments size{"--width", "32", "--height", "32"};
  const auto lookup = [&](const Arguments& of_size) {
    const ProcessResult result =
        run_difflet(joined({"cache", "lookup", "--json", "--model", pipeline_.string(),
                            "--cache-dir", store_.string(), "--max-sequence-length", "16"},
                           of_size));
    EXPECT_EQ(result.status, 0) << result.err;
    return json_rows(result.out);
  };
  for (const Json& row : lookup(size)) {
    EXPECT_EQ(row.at("hit"), false);
    EXPECT_NE(row.at("reason"), "");
  }
  EXPECT_TRUE(cache_rows("ls").empty());
  compile_pipeline(size);
  std::vector<std::string> keys;
  for (const Json& row : cache_rows("ls")) {
    keys.push_back(row.at("key").get<std::string>());
  }
  for (const Json& row : lookup(size)) {
    EXPECT_EQ(row.at("hit"), true);
    EXPECT_EQ(row.at("weights"), true);
    EXPECT_NE(std::find(keys.begin(), keys.end(), row.at("key").get<std::string>()), keys.end());
  }
  EXPECT_EQ(lookup({"--width", "32", "--height", "48"})[2].at("hit"), false);
  EXPECT_EQ(lookup({"--width", "32", "--height", "48"})[0].at("hit"), true)
      << "prompts do not depend on the size";
}

}  // namespace
}  // namespace difflet::testing
