// Damaged, missing and strange checkpoints: one line that names the file, the right status, no
// file.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>

#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFlux = "transformer/diffusion_pytorch_model.safetensors";

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class BrokenCheckpoint : public ::testing::Test {
 protected:
  BrokenCheckpoint() { copy_model("schnell", model_); }

  void refused(int status, const std::string& part) {
    expect_refused({"generate", "--model", model_.string(), "--prompt", "p", "--quiet", "--steps",
                    "2", "--max-sequence-length", "16", "--output", (output_ / "x.png").string()},
                   status, part);
    EXPECT_EQ(files_in(output_.path()), std::vector<std::string>{});
  }
  // Replaces the transformer's weights by a header of these bytes and some data.
  void refused_header(const std::string& header, int status, const std::string& part) {
    std::string file(8, '\0');
    const std::uint64_t size = header.size();
    std::memcpy(file.data(), &size, sizeof(size));
    write_text(model_ / kFlux, file + header + std::string(64, '\0'));
    refused(status, part);
  }
  // Overwrites the first values of a tensor of the transformer.
  void fill(const std::string& name, std::size_t count, float value) {
    const std::size_t offset = io::SafetensorsFile::open(model_ / kFlux).entry(name).begin;
    std::fstream stream(model_ / kFlux, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(offset));
    for (std::size_t i = 0; i < count; ++i) {
      stream.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  void change_config(const std::string& component, const std::string& key, const Json& value) {
    const fs::path path = model_ / component / "config.json";
    Json config = read_json_file(path);
    config[key] = value;
    write_text(path, config.dump());
  }

  TemporaryFolder folder_, output_;
  fs::path model_ = folder_ / "model";
};

TEST_F(BrokenCheckpoint, FoldersAndFilesThatAreNotThere) {
  fs::remove(model_ / kFlux);
  refused(3, "transformer");
  fs::remove_all(model_ / "transformer");
  refused(3, "transformer: component folder not found");
  fs::remove_all(model_ / "tokenizer_2");
  refused(3, "tokenizer_2: component folder not found");
  fs::remove(model_ / "scheduler/scheduler_config.json");
  refused(3, "scheduler_config.json");
  fs::remove(model_ / "model_index.json");
  refused(3, "model_index.json");
  fs::remove_all(model_);
  refused(3, "no such folder");
}

TEST_F(BrokenCheckpoint, HeadersThatLie) {
  std::string file(8, '\0');
  file[7] = static_cast<char>(0x80);  // a header of 2^63 bytes
  write_text(model_ / kFlux, file + "{}");
  refused(6, kFlux);
  write_text(model_ / kFlux, "");
  refused(6, kFlux);
  refused_header("not json", 6, kFlux);
  refused_header(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
                     "b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",
                 6, "overlap");
  refused_header(R"({"a":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}})", 6, "'a'");
  refused_header(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})", 6, kFlux);
  refused_header(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,0]}})", 6,
                 "'a'");
}

TEST_F(BrokenCheckpoint, ATruncatedFile) {
  const fs::path file = model_ / kFlux;
  fs::resize_file(file, fs::file_size(file) - 100);
  refused(6, kFlux);
}

TEST_F(BrokenCheckpoint, ADirectoryInsteadOfAFile) {
  fs::remove(model_ / kFlux);
  fs::create_directory(model_ / kFlux);
  refused(2, "is a directory");
}

TEST_F(BrokenCheckpoint, ConfigsThatCannotBe) {
  change_config("transformer", "num_attention_heads", 0);
  refused(2, "num_attention_heads: expected an integer from 1");
  change_config("transformer", "num_attention_heads", 2);
  change_config("transformer", "num_layers", 1'000'000'000);
  refused(2, "num_layers: expected an integer from 0 to 1000");
  change_config("transformer", "num_layers", "two");
  refused(2, "num_layers");
  write_text(model_ / "transformer/config.json", "[1]");
  refused(6, "transformer/config.json");
  write_text(model_ / "transformer/config.json", "{");
  refused(6, "transformer/config.json");
}

TEST_F(BrokenCheckpoint, WeightsThatDoNotFitTheConfig) {
  change_config("transformer", "num_layers", 2);  // one more than there is
  refused(6, "missing 'transformer_blocks.1.");
  change_config("transformer", "num_layers", 0);
  refused(6, "unexpected 'transformer_blocks.0.");
  change_config("transformer", "num_layers", 1);
  change_config("text_encoder_2", "d_ff", 64);
  refused(6, "the config asks for");
}

TEST_F(BrokenCheckpoint, ComponentsThatDoNotFitEachOther) {
  change_config("vae", "latent_channels", 3);
  refused(2, "4 * vae's latent_channels is 12");
}

TEST_F(BrokenCheckpoint, ClassesThatNobodyKnows) {
  Json index = read_json_file(model_ / "model_index.json");
  index["transformer"] = {"diffusers", "UNet2DConditionModel"};
  write_text(model_ / "model_index.json", index.dump());
  refused(4, "transformer is a UNet2DConditionModel");
  index["transformer"] = {"diffusers", "FluxTransformer2DModel"};
  index["scheduler"] = {"diffusers", "DDIMScheduler"};
  write_text(model_ / "model_index.json", index.dump());
  refused(4, "scheduler is a DDIMScheduler");
  index["scheduler"] = {7, "FlowMatchEulerDiscreteScheduler"};
  write_text(model_ / "model_index.json", index.dump());
  refused(6, "scheduler: expected [library, class]");
  index["scheduler"] = {"diffusers", "FlowMatchEulerDiscreteScheduler"};
  index["_class_name"] = "StableDiffusionPipeline";
  write_text(model_ / "model_index.json", index.dump());
  refused(4, "StableDiffusionPipeline is not supported");
  index["_class_name"] = 7;
  write_text(model_ / "model_index.json", index.dump());
  refused(6, "_class_name");
}

TEST_F(BrokenCheckpoint, AComponentInTheFolderOfAnother) {
  fs::remove_all(model_ / "text_encoder");
  fs::copy(model_ / "text_encoder_2", model_ / "text_encoder", fs::copy_options::recursive);
  refused(6, "text_encoder/config.json: this is a T5EncoderModel, listed as a CLIPTextModel");
}

TEST_F(BrokenCheckpoint, WeightsThatAreNoFloats) {
  const auto file = io::SafetensorsFile::open(model_ / kFlux);
  std::map<std::string, HostTensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    tensors.emplace(name, file.tensor(name));
  }
  HostTensor& bias = tensors.at("proj_out.bias");
  bias = HostTensor(DType::I32, bias.shape());
  io::write_safetensors(model_ / kFlux, tensors);
  refused(6, "'proj_out.bias' in diffusion_pytorch_model.safetensors is i32, not F32");
}

TEST_F(BrokenCheckpoint, ASchedulerThatIsNotKnown) {
  const fs::path path = model_ / "scheduler/scheduler_config.json";
  Json config = read_json_file(path);
  config["_class_name"] = "DDIMScheduler";
  write_text(path, config.dump());
  refused(4, "DDIMScheduler");
}

TEST_F(BrokenCheckpoint, NotANumberInAWeight) {
  fill("proj_out.weight", 1, std::numeric_limits<float>::quiet_NaN());
  refused(6, "proj_out.weight");
  fill("proj_out.weight", 1, std::numeric_limits<float>::infinity());
  refused(6, "proj_out.weight");
  refused(6, (model_ / "transformer").string());
}

TEST_F(BrokenCheckpoint, NumbersThatOverflowMakeNoBlackPicture) {
  fill("proj_out.weight", 8 * 32, 3e38F);
  refused(6, "latents after step 1 of 2");
}

}  // namespace
}  // namespace difflet::testing
