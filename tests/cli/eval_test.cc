// difflet eval, inspect and tokenize.
#include <fstream>
#include <sstream>

#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"
#include "difflet/tensor/compare.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

fs::path golden_data(const std::string& name) {
  return fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data" / name;
}

class Eval : public ::testing::Test {
 protected:
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{
        "eval",           "--model", case_.string(), "--inputs",   inputs_, "--output",
        output_.string(), "--dtype", "f32",          "--artifact", "off"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void refused_input(const std::string& name, const HostTensor& tensor, const std::string& part) {
    const auto file = io::SafetensorsFile::open(case_ / "inputs.safetensors");
    std::map<std::string, HostTensor> tensors;
    for (const auto& [key, entry] : file.entries()) {
      tensors.emplace(key, file.tensor(key));
    }
    tensors.insert_or_assign(name, tensor);
    const fs::path changed = folder_ / "in.safetensors";
    io::write_safetensors(changed, tensors);
    inputs_ = changed.string();
    expect_refused(arguments(), 2, part);
    EXPECT_FALSE(fs::exists(output_));
  }

  TemporaryFolder folder_;
  fs::path case_ = golden_data("flux_transformer/tiny");
  std::string inputs_ = (case_ / "inputs.safetensors").string();
  fs::path output_ = folder_ / "out.safetensors";
};

TEST_F(Eval, WritesTheOutputsAsF32AndTheTimesAsJson) {
  const ProcessResult result = run_difflet(arguments({"--repeat", "3", "--json"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto got = io::SafetensorsFile::open(output_);
  const auto want = io::SafetensorsFile::open(case_ / "expected_f32.safetensors");
  EXPECT_EQ(got.entries().size(), want.entries().size());
  for (const auto& [name, entry] : want.entries()) {
    EXPECT_EQ(got.entry(name).dtype, DType::F32);
    EXPECT_LT(compare(got.tensor(name), want.tensor(name)).relative, 1e-4) << name;
  }
  const Json times = parse_json(result.out, "times");
  EXPECT_GT(times.at("load_s").get<double>(), 0);
  ASSERT_EQ(times.at("runs").size(), 3U);
  EXPECT_GT(times["runs"][2].at("wall_s").get<double>(), 0);
  EXPECT_GE(times["runs"][2].at("cpu_s").get<double>(), 0);
  EXPECT_GT(times.at("peak_rss_bytes").get<std::int64_t>(), 1 << 20);
}

TEST_F(Eval, FindsTheComponentInAPipeline) {
  const fs::path in = folder_ / "z.safetensors";
  io::write_safetensors(in, {{"z", HostTensor(DType::F32, {1, 2, 4, 6})}});
  const ProcessResult result =
      run_difflet({"eval", "--model", golden_model("schnell").string(), "--component", "vae",
                   "--inputs", in.string(), "--output", output_.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(io::SafetensorsFile::open(output_).entry("sample").shape, (Shape{1, 3, 8, 12}));
}

TEST_F(Eval, InputsAreChecked) {
  refused_input("hidden_state", HostTensor(DType::F32, {1, 2}), "unknown input 'hidden_state'");
  refused_input("timestep", HostTensor(DType::F32, Shape{}), "input 'timestep' must have 1 axes");
  refused_input("timestep", HostTensor(DType::I32, {1}), "input 'timestep'");
  refused_input("hidden_states", HostTensor(DType::F32, {1, 2, 3}), "input 'hidden_states'");
}

TEST_F(Eval, FilesAreChecked) {
  inputs_ = (folder_ / "none.safetensors").string();
  expect_refused(arguments(), 3, "none.safetensors");
  inputs_ = folder_.path().string();
  expect_refused(arguments(), 2, "is a directory");
  case_ = folder_.path();
  expect_refused(arguments(), 3, "config.json");
  case_ = golden_model("schnell");
  expect_refused(arguments({"--component", "unet"}), 3, "no component 'unet'; there are");
  expect_refused(arguments({"--component", "../dev"}), 2, "not the name of a folder");
  output_ = folder_ / "none/out.safetensors";
  expect_refused(arguments({"--component", "vae"}), 3, "no folder");
}

TEST_F(Eval, TheOutputDoesNotReplaceInputs) {
  copy_model("schnell", folder_ / "model");
  case_ = folder_ / "model/vae";
  output_ = case_ / "diffusion_pytorch_model.safetensors";
  const auto size = std::filesystem::file_size(output_);
  expect_refused(arguments(), 2, "it is not overwritten");
  EXPECT_EQ(std::filesystem::file_size(output_), size);
  const std::filesystem::path weights = output_;
  output_ = folder_ / "link.safetensors";
  std::filesystem::create_symlink(weights, output_);
  expect_refused(arguments(), 2, "it is not overwritten");
  EXPECT_EQ(std::filesystem::file_size(weights), size);
  output_ = inputs_;
  expect_refused(arguments(), 2, "it is not overwritten");
}

TEST(Tokenize, PrintsOneListForEachLine) {
  const std::vector<std::string> clip{"tokenize", "--model", golden_model("dev").string(),
                                      "--component", "tokenizer"};
  ProcessOptions options;
  options.input = "a cat\r\n\ncaf\xc3\xa9 \x1e b\n";
  const ProcessResult plain = run_difflet(clip, options);
  EXPECT_EQ(plain.status, 0) << plain.err;
  std::istringstream lines(plain.out);
  std::vector<Json> lists;
  for (std::string line; std::getline(lines, line);) {
    lists.push_back(parse_json(line, "ids"));
  }
  ASSERT_EQ(lists.size(), 3U);     // split at \n only, and nothing after the last one
  EXPECT_EQ(lists[1].size(), 2U);  // begin and end

  std::vector<std::string> padded = clip;
  padded.emplace_back("--pad");
  const ProcessResult pad = run_difflet(padded, options);
  EXPECT_EQ(parse_json(pad.out.substr(0, pad.out.find('\n')), "ids").size(), 77U);

  options.input = "fine\nbroken \xff\n";
  const ProcessResult broken = run_difflet(clip, options);
  EXPECT_EQ(broken.status, 2);
  EXPECT_NE(broken.err.find("difflet: error: line 2"), std::string::npos) << broken.err;
  options.input = "";
  EXPECT_EQ(run_difflet(clip, options).out, "");
}

TEST(Inspect, ListsComponentsAndPlansThem) {
  const std::string model = golden_model("dev").string();
  const ProcessResult text = run_difflet({"inspect", "--model", model});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const std::string name : {"text_encoder", "text_encoder_2", "transformer", "vae"}) {
    EXPECT_NE(text.out.find(name), std::string::npos) << text.out;
  }
  const ProcessResult json = run_difflet({"inspect", "--model", model, "--json", "--n", "2"});
  EXPECT_EQ(parse_json(json.out, "inspect").at("components").size(), 4U);
  const ProcessResult graph =
      run_difflet({"inspect", "--model", model, "--component", "transformer", "--graph"});
  EXPECT_TRUE(graph.out.starts_with("graph \"flux_transformer\"")) << graph.out.substr(0, 80);
  const ProcessResult why = run_difflet({"inspect", "--model", model, "--component", "transformer",
                                         "--why", "--cpu-level", "scalar"});
  EXPECT_NE(why.out.find("scalar"), std::string::npos) << why.out;
  expect_refused({"inspect", "--model", model, "--graph"}, 2, "--component");
  const ProcessResult alone =
      run_difflet({"inspect", "--model", golden_data("autoencoder_kl/flux4").string()});
  EXPECT_NE(alone.out.find("AutoencoderKL"), std::string::npos) << alone.out << alone.err;
}

}  // namespace
}  // namespace difflet::testing
