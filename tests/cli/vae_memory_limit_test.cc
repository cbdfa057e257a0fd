// difflet ... --vae-memory-limit
#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/io/image.h"
#include "difflet/io/safetensors.h"
#include "difflet/tensor/compare.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

class VaeMemoryLimit : public ::testing::Test {
 protected:
  VaeMemoryLimit() {
    HostTensor z(DType::F32, {1, 2, 40, 24});
    std::uint32_t state = 1;
    for (float& v : z.mutable_as<float>()) {
      state = state * 1664525U + 1013904223U;
      v = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
    }
    io::write_safetensors(z_, {{"z", z}});
  }
  Arguments arguments(const std::string& command, const Arguments& more) const {
    Arguments all{command,       "--model",     model_.string(),
                  "--component", "vae",         "--inputs",
                  z_.string(),   "--cache-dir", (folder_ / "store").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  HostTensor picture(const Arguments& more) {
    Arguments all = arguments("eval", {"--output", output_.string()});
    all.insert(all.end(), more.begin(), more.end());
    const ProcessResult result = run_difflet(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? io::SafetensorsFile::open(output_).tensor("sample") : HostTensor();
  }
  // The smallest one, as the refusal of a lower one tells it.
  std::string limit(const std::string& dtype) {
    const ProcessResult result =
        run_difflet(arguments("eval", {"--output", output_.string(), "--artifact", "off", "--dtype",
                                       dtype, "--vae-memory-limit", "1K"}));
    EXPECT_EQ(result.status, 5) << result.err;
    const std::string mark = "the smallest limit that works is ";
    const std::size_t at = result.err.find(mark);
    EXPECT_NE(at, std::string::npos) << result.err;
    const std::string rest = at == std::string::npos ? "1G" : result.err.substr(at + mark.size());
    return rest.substr(0, rest.find_first_not_of("0123456789KMG"));
  }

  TemporaryFolder folder_;
  fs::path model_ = golden_model("schnell");
  fs::path z_ = folder_ / "z.safetensors";
  fs::path output_ = folder_ / "out.safetensors";
};

TEST_F(VaeMemoryLimit, EvalGivesTheSamePicture) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const Arguments common{"--artifact", "off", "--dtype", dtype};
    Arguments limited = common;
    limited.insert(limited.end(), {"--vae-memory-limit", limit(dtype)});
    const Difference difference = compare(picture(limited), picture(common));
    EXPECT_GE(difference.psnr, 60) << dtype << ": " << difference.str();
  }
}

TEST_F(VaeMemoryLimit, AnArtifactHoldsTheProgramsOfALimit) {
  const std::string smallest = limit("bf16");
  const Arguments limited{"--vae-memory-limit", smallest};
  const ProcessResult compiled = run_difflet(arguments("compile", limited));
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  const HostTensor stored = picture({"--artifact", "require", "--vae-memory-limit", smallest});
  const HostTensor fresh = picture({"--artifact", "off", "--vae-memory-limit", smallest});
  EXPECT_EQ(compare(stored, fresh).max_abs, 0);
  expect_refused(arguments("eval", {"--output", output_.string(), "--artifact", "require"}), 3,
                 "no artifact");
  const ProcessResult again = run_difflet(arguments("compile", limited));
  EXPECT_NE(again.out.find("present"), std::string::npos) << again.out << again.err;
}

TEST_F(VaeMemoryLimit, IsOfComponentsThatMakeAPicture) {
  const Arguments text{"inspect", "--model", model_.string(), "--component", "text_encoder"};
  Arguments limited = text;
  limited.insert(limited.end(), {"--vae-memory-limit", "1G"});
  EXPECT_EQ(run_difflet(text).status, 0);
  expect_refused(limited, 2, "CLIPTextModel makes no picture");
  expect_refused(arguments("compile", {"--vae-memory-limit", "1X"}), 2, "is not a size");
  expect_refused(arguments("compile", {"--vae-memory-limit", "0"}), 2, "is not a size");
}

TEST_F(VaeMemoryLimit, GenerateAndInspectTakeIt) {
  const Arguments size{"--model", model_.string(), "--width", "64", "--height", "64"};
  Arguments inspect{"inspect", "--json"};
  inspect.insert(inspect.end(), size.begin(), size.end());
  inspect.insert(inspect.end(), {"--vae-memory-limit", "1K"});
  const ProcessResult refused = run_difflet(inspect);
  EXPECT_EQ(refused.status, 5) << refused.err;
  const std::string mark = "works is ";
  const std::string rest = refused.err.substr(refused.err.find(mark) + mark.size());
  const std::string smallest = rest.substr(0, rest.find_first_not_of("0123456789KMG"));
  inspect.back() = smallest;
  const ProcessResult inspected = run_difflet(inspect);
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const Json components = parse_json(inspected.out, "inspect").at("components");
  for (const Json& component : components) {
    const bool vae = component.at("name") == "vae";
    EXPECT_EQ(component.at("bands").is_string(), vae) << component.dump();
    EXPECT_TRUE(!vae || component["bands"].get<std::string>().starts_with("in bands of rows"));
  }
  std::vector<io::Image> pictures;
  for (const Arguments& more : {Arguments{}, Arguments{"--vae-memory-limit", smallest}}) {
    const fs::path png = folder_ / "x.png";
    Arguments generate{"generate", "--prompt",   "p",         "--steps",
                       "1",        "--artifact", "off",       "--max-sequence-length",
                       "16",       "--output",   png.string()};
    generate.insert(generate.end(), size.begin(), size.end());
    generate.insert(generate.end(), more.begin(), more.end());
    const ProcessResult result = run_difflet(generate);
    ASSERT_EQ(result.status, 0) << result.err;
    pictures.push_back(io::read_png(png));
  }
  EXPECT_EQ(pictures[0].rgb, pictures[1].rgb);
}

}  // namespace
}  // namespace difflet::testing
