#include "difflet/io/checkpoint.h"

#include <array>

#include <gmock/gmock.h>

#include "difflet/base/testing.h"

namespace difflet::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::TemporaryFolder;

void write_text(const fs::path& path, const std::string& text) {
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

void write_weights(const fs::path& path, const std::map<std::string, float>& values) {
  std::map<std::string, HostTensor> tensors;
  for (const auto& [name, value] : values) {
    tensors[name] = HostTensor::from({1}, std::span<const float>(&value, 1));
  }
  write_safetensors(path, tensors);
}

float value_of(const Checkpoint& c, const std::string& name) {
  return c.tensor(name).to_floats().at(0);
}

TEST(Checkpoint, OpensASingleFileOfEitherLibrary) {
  for (const char* name : {"diffusion_pytorch_model.safetensors", "model.safetensors"}) {
    const TemporaryFolder folder;
    write_weights(folder / name, {{"a", 1.0F}, {"b", 2.0F}});
    const Checkpoint c = Checkpoint::open(folder.path());
    EXPECT_THAT(c.names(), ElementsAre("a", "b"));
    EXPECT_EQ(value_of(c, "b"), 2.0F);
    EXPECT_EQ(c.entry("b").shape, Shape{1});
    EXPECT_EQ(c.file_of("b").filename(), name);
    EXPECT_FALSE(c.has("c"));
    EXPECT_ERROR(c.entry("c"), ErrorCode::NotFound, "'c'");
  }
}

TEST(Checkpoint, OpensVariants) {
  const TemporaryFolder folder;
  write_weights(folder / "diffusion_pytorch_model.safetensors", {{"a", 32.0F}});
  write_weights(folder / "diffusion_pytorch_model.fp16.safetensors", {{"a", 16.0F}});
  EXPECT_EQ(value_of(Checkpoint::open(folder.path()), "a"), 32.0F);
  EXPECT_EQ(value_of(Checkpoint::open(folder.path(), "fp16"), "a"), 16.0F);
}

TEST(Checkpoint, OpensShards) {
  const TemporaryFolder folder;
  write_weights(folder / "model-00001-of-00002.safetensors", {{"a", 1.0F}, {"c", 3.0F}});
  write_weights(folder / "model-00002-of-00002.safetensors", {{"b", 2.0F}});
  write_text(folder / "model.safetensors.index.json",
             R"({"metadata": {"total_size": 12}, "weight_map": {
                  "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
                  "c": "model-00001-of-00002.safetensors"}})");
  const Checkpoint c = Checkpoint::open(folder.path());
  EXPECT_THAT(c.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(value_of(c, "c"), 3.0F);
  EXPECT_EQ(c.file_of("b").filename(), "model-00002-of-00002.safetensors");
}

TEST(Checkpoint, OpensShardsOfAVariant) {
  const TemporaryFolder folder;
  write_weights(folder / "diffusion_pytorch_model.fp16-00001-of-00001.safetensors", {{"a", 1.0F}});
  write_text(folder / "diffusion_pytorch_model.safetensors.index.fp16.json",
             R"({"weight_map": {"a": "diffusion_pytorch_model.fp16-00001-of-00001.safetensors"}})");
  EXPECT_EQ(value_of(Checkpoint::open(folder.path(), "fp16"), "a"), 1.0F);
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::NotFound, "use --variant fp16");
}

TEST(Checkpoint, PrefersAsTheOriginalLibraries) {
  const TemporaryFolder folder;
  const std::string index = R"({"weight_map": {"a": "shard.safetensors"}})";
  write_weights(folder / "shard.safetensors", {{"a", 1.0F}});
  write_weights(folder / "model.safetensors", {{"a", 2.0F}});
  write_text(folder / "model.safetensors.index.json", index);
  EXPECT_EQ(value_of(Checkpoint::open(folder.path()), "a"), 2.0F);
  write_weights(folder / "diffusion_pytorch_model.safetensors", {{"a", 3.0F}});
  EXPECT_EQ(value_of(Checkpoint::open(folder.path()), "a"), 3.0F);
  write_text(folder / "diffusion_pytorch_model.safetensors.index.json", index);
  EXPECT_EQ(value_of(Checkpoint::open(folder.path()), "a"), 1.0F);
}

TEST(Checkpoint, SaysWhatItLookedForAndWhatIsThere) {
  const TemporaryFolder folder;
  const Error e = testing::error_of([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(e.code(), ErrorCode::NotFound);
  for (const char* name :
       {"diffusion_pytorch_model.safetensors", "model.safetensors",
        "diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json"}) {
    EXPECT_NE(e.message().find(name), std::string::npos) << e.message();
  }
  EXPECT_EQ(e.message().find("--variant"), std::string::npos) << e.message();

  write_text(folder / "pytorch_model.bin", "x");
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::NotFound,
               "pytorch_model.bin cannot be read");
  write_weights(folder / "model.fp16.safetensors", {{"a", 1.0F}});
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::NotFound, "use --variant fp16");
  write_weights(folder / "model.safetensors", {{"a", 1.0F}});
  EXPECT_ERROR(Checkpoint::open(folder.path(), "bf16"), ErrorCode::NotFound, "leave --variant out");
  EXPECT_ERROR(Checkpoint::open(folder.path(), "bf16"), ErrorCode::NotFound,
               "model.bf16.safetensors");
}

TEST(Checkpoint, RefusesBadFolders) {
  const TemporaryFolder folder;
  EXPECT_ERROR(Checkpoint::open(folder / "absent"), ErrorCode::NotFound, "no folder");
  write_text(folder / "file", "x");
  EXPECT_ERROR(Checkpoint::open(folder / "file"), ErrorCode::InvalidArgument, "not a folder");
  EXPECT_ERROR(Checkpoint::open(folder.path(), "../x"), ErrorCode::InvalidArgument, "variant");
}

TEST(Checkpoint, NamesEveryAbsentShard) {
  const TemporaryFolder folder;
  write_weights(folder / "s1", {{"a", 1.0F}});
  write_text(folder / "model.safetensors.index.json",
             R"({"weight_map": {"a": "s1", "b": "s2", "c": "s3", "d": "s3"}})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::NotFound,
               "names 2 of 3 files that are absent: s2, s3");
}

TEST(Checkpoint, RefusesDamagedIndexes) {
  const TemporaryFolder folder;
  const fs::path index = folder / "model.safetensors.index.json";
  write_weights(folder / "s1", {{"a", 1.0F}});
  const std::array<std::pair<const char*, const char*>, 11> cases = {{
      {"{", ":1:2"},
      {"[]", "not an object"},
      {"{}", "no object weight_map"},
      {R"({"weight_map": []})", "no object weight_map"},
      {R"({"weight_map": {}})", "empty"},
      {R"({"weight_map": {"a": 1}})", "weight_map.a is not a string"},
      {R"({"weight_map": {"a": "../s1"}})", "'../s1', which is not the name of a file"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "not the name of a file"},
      {R"({"weight_map": {"a": ".."}})", "not the name of a file"},
      {R"({"weight_map": {"a": ""}})", "not the name of a file"},
      {R"({"weight_map": {"a": "s1\u0000"}})", "not the name of a file"},
  }};
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text);
    write_text(index, text);
    EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::DataLoss, part);
    EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::DataLoss, index.string());
  }
}

TEST(Checkpoint, RefusesIndexesThatDisagreeWithTheShards) {
  const TemporaryFolder folder;
  const fs::path index = folder / "model.safetensors.index.json";
  write_weights(folder / "s1", {{"a", 1.0F}, {"b", 1.0F}});
  write_weights(folder / "s2", {{"c", 2.0F}});
  write_text(index, R"({"weight_map": {"a": "s1", "c": "s2", "d": "s2"}})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::DataLoss,
               "1 tensors that are not there: 'd' (in s2)");
  write_text(index, R"({"weight_map": {"a": "s2", "c": "s2", "b": "s1"}})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::DataLoss, "'a' (in s2)");
  write_weights(folder / "s2", {{"a", 2.0F}, {"c", 2.0F}});
  write_text(index, R"({"weight_map": {"a": "s1", "c": "s2"}})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), ErrorCode::DataLoss, "'a' is in both");
}

TEST(Checkpoint, UnsupportedTensorsAreThereButCannotBeRead) {
  const TemporaryFolder folder;
  const std::string header = R"({"q":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_text(folder / "model.safetensors", bytes + header + "x");
  const Checkpoint c = Checkpoint::open(folder.path());
  EXPECT_TRUE(c.has("q"));
  EXPECT_ERROR(c.entry("q"), ErrorCode::Unsupported, "dtype F8_E8M0");
}

}  // namespace
}  // namespace difflet::io
