// What enters the key of an artifact, option by option: cases come from the table of options, so that
// a new option cannot be forgotten.
#include <fstream>
#include <map>
#include <set>

#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/base/options.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

using Keys = std::map<std::string, std::string>;  // component -> key

class ArtifactKeys : public ::testing::Test {
 protected:
  void SetUp() override {
    copy_model("schnell", model_);
    std::vector<fs::path> weights;
    for (const auto& file : fs::recursive_directory_iterator(model_)) {
      if (file.path().extension() == ".safetensors") {
        weights.push_back(file.path());
      }
    }
    for (const fs::path& file : weights) {
      fs::path variant = file;
      variant.replace_extension(".other.safetensors");
      fs::copy_file(file, variant);
      flip_last_bit(variant);
    }
  }

  static void flip_last_bit(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int last = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
  }

  Keys keys(const std::map<std::string, std::string>& options) {
    std::vector<std::string> arguments{"cache", "explain-key", "--json"};
    for (const auto& [name, value] : options) {
      arguments.push_back("--" + name);
      if (!value.empty()) {
        arguments.push_back(value);
      }
    }
    const ProcessResult result = run_difflet(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    Keys found;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const Json row = parse_json(line, "explain-key");
      found[row.at("component").get<std::string>()] = row.at("key").get<std::string>();
    }
    EXPECT_FALSE(found.empty());
    return found;
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_ / "model";
  std::map<std::string, std::string> base_{{"model", model_.string()},
                                           {"width", "64"},
                                           {"height", "64"},
                                           {"cpu-level", "scalar"},
                                           {"cache-dir", (folder_ / "store").string()}};
};

// Another value for each option that explain-key has; empty: a flag.
std::map<std::string, std::string> other_values(const fs::path& folder) {
  return {{"model", (folder / "another").string()},
          {"component", "vae"},
          {"inputs", (folder / "inputs.safetensors").string()},
          {"width", "32"},
          {"height", "32"},
          {"n", "2"},
          {"max-sequence-length", "64"},
          {"dtype", "f32"},
          {"quant", "w8a16"},
          {"quant-groups", "double.mlp=w8a8"},
          {"variant", "other"},
          {"backend", "reference"},
          {"cpu-level", "avx2"},
          {"shapes", "64x64,32x32"},
          {"schedule-capacity", "8"},
          {"vae-memory-limit", "16M"},
          {"cache-dir", (folder / "another store").string()},
          {"threads", "1"},
          {"quiet", ""}};
}

// --json shapes the output, KEY and --diff name artifacts that are there.
const std::set<std::string_view> kNotOfAModel{"json", "key", "diff"};

TEST_F(ArtifactKeys, EachOptionThatDecidesProgramsChangesTheKeyAndNoOtherDoes) {
  const Keys before = keys(base_);
  EXPECT_EQ(before.size(), 4U);
  fs::copy(model_, folder_ / "another", fs::copy_options::recursive);
  std::string config;
  {
    std::ifstream file(folder_ / "another/vae/config.json");
    config.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::size_t at = config.find("\"scaling_factor\": ");
  ASSERT_NE(at, std::string::npos);
  config.insert(at + 18, "1");
  std::ofstream(folder_ / "another/vae/config.json") << config;
  const auto others = other_values(folder_.path());
  for (const OptionDecl* option : options_of("cache explain-key")) {
    if (kNotOfAModel.contains(option->name) || option->name == "inputs" ||
        option->name == "component") {
      continue;  // these two have tests of their own
    }
    const auto other = others.find(std::string(option->name));
    ASSERT_NE(other, others.end()) << "--" << option->name << " needs another value here";
    auto changed = base_;
    if (option->name == "backend") {
      changed.erase("cpu-level");
    }
    changed[std::string(option->name)] = other->second;
    if (option->effect == OptionEffect::Compile) {
      EXPECT_NE(keys(changed), before) << "--" << option->name;
    } else {
      EXPECT_EQ(keys(changed), before) << "--" << option->name;
    }
  }
}

// An option of a command that runs programs either is one of explain-key's, or cannot enter a key.
TEST(ArtifactKeyOptions, EveryOptionThatDecidesProgramsIsKnownToTheCommandsOfTheStore) {
  for (const std::string_view command : {"generate", "eval"}) {
    for (const OptionDecl* option : options_of(command)) {
      for (const std::string_view other : {"compile", "cache lookup", "cache explain-key"}) {
        const bool known = find_option(other, option->name) != nullptr;
        if (option->effect == OptionEffect::Compile) {
          EXPECT_TRUE(known) << command << " --" << option->name << " is unknown to " << other;
        }
      }
    }
  }
}

TEST_F(ArtifactKeys, TheSameModelElsewhereHasTheSameKeys) {
  const Keys before = keys(base_);
  fs::rename(model_, folder_ / "moved");
  auto moved = base_;
  moved["model"] = (folder_ / "moved").string();
  EXPECT_EQ(keys(moved), before);
}

TEST_F(ArtifactKeys, AChangedWeightChangesTheKeyOfItsComponentAlone) {
  const Keys before = keys(base_);
  const fs::path weights = model_ / "vae/diffusion_pytorch_model.safetensors";
  ASSERT_TRUE(fs::exists(weights));
  flip_last_bit(weights);
  Keys after = keys(base_);
  EXPECT_NE(after.at("vae"), before.at("vae"));
  after["vae"] = before.at("vae");
  EXPECT_EQ(after, before);
}

TEST_F(ArtifactKeys, OneComponentAndGivenTensorsHaveTheKeysOfThePipeline) {
  const Keys all = keys(base_);
  auto one = base_;
  one["component"] = "vae";
  EXPECT_EQ(keys(one), (Keys{{"vae", all.at("vae")}}));
}

}  // namespace
}  // namespace difflet::testing
