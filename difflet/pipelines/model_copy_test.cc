#include "difflet/pipelines/model_copy.h"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using ::testing::UnorderedElementsAre;

void write(const fs::path& path, std::string_view text = "x") {
  fs::create_directories(path.parent_path());
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

std::vector<std::string> targets(const std::vector<CopiedFile>& files) {
  std::vector<std::string> names;
  for (const CopiedFile& file : files) {
    names.push_back(file.to.string());
  }
  return names;
}

class ModelCopy : public ::testing::Test {
 protected:
  ModelCopy() {
    write(model_ / "model_index.json",
          R"({"_class_name": "P", "a": ["lib", "A"], "b": ["lib", "B"], "c": [null, null]})");
    write(model_ / "README.md");
    write(model_ / "whole.safetensors");
    write(model_ / "a/config.json");
    write(model_ / "a/model.safetensors");
    write(model_ / "a/model.fp16.safetensors");
    write(model_ / "a/flax_model.msgpack");
    write(model_ / "a/notes.txt");
    write(model_ / "b/config.json");
    write(model_ / "b/diffusion_pytorch_model-00001-of-00001.safetensors");
    write(model_ / "b/diffusion_pytorch_model-1-of-1.fp16.safetensors");
    write(model_ / "b/diffusion_pytorch_model.safetensors.index.json",
          R"({"weight_map": {"t": "diffusion_pytorch_model-00001-of-00001.safetensors"}})");
    write(model_ / "other/file");
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_ / "model";
};

TEST_F(ModelCopy, TakesWhatAVariantNeeds) {
  EXPECT_THAT(targets(files_of_model(model_, "", {})),
              UnorderedElementsAre("model_index.json", "README.md", "a/config.json",
                                   "a/model.safetensors", "a/notes.txt", "b/config.json",
                                   "b/diffusion_pytorch_model-00001-of-00001.safetensors",
                                   "b/diffusion_pytorch_model.safetensors.index.json"));
  EXPECT_THAT(targets(files_of_model(model_, "fp16", {"b"})),
              UnorderedElementsAre("model_index.json", "README.md", "a/config.json",
                                   "a/model.fp16.safetensors", "a/notes.txt"));
}

TEST_F(ModelCopy, AComponentsOwnFolder) {
  EXPECT_THAT(targets(files_of_model(model_ / "a", "", {""})), UnorderedElementsAre("notes.txt"));
  EXPECT_THAT(targets(files_of_model(model_ / "a", "", {})),
              UnorderedElementsAre("config.json", "model.safetensors", "notes.txt"));
}

TEST_F(ModelCopy, TellsWhatIsLeftOut) {
  write(model_ / ".cache/x");
  write(model_ / "a/lora/x");
  fs::create_symlink("nowhere", model_ / "a/dangling");
  fs::create_symlink("README.md", model_ / "link");
  ASSERT_EQ(::mkfifo((model_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(left_out_of_copy(model_),
            (std::vector<std::string>{"a/dangling", "a/lora", "other", "pipe"}));
  EXPECT_EQ(left_out_of_copy(model_ / "a"), (std::vector<std::string>{"dangling", "lora"}));
}

TEST_F(ModelCopy, LinksLargeFilesAndCopiesSmallOnes) {
  write(model_ / "a/model.safetensors", std::string(2'000'000, 'w'));
  // As the hub's cache has it: a link to a file elsewhere.
  fs::rename(model_ / "a/model.safetensors", folder_ / "blob");
  fs::create_symlink("../../blob", model_ / "a/model.safetensors");
  const auto files = files_of_model(model_, "", {});
  const fs::path to = folder_ / "copy";
  fs::create_directory(to);
  EXPECT_LT(bytes_to_copy(files, to), 10'000U);
  int calls = 0;
  copy_files(files, to, [&] { ++calls; });
  EXPECT_GE(calls, 8);
  EXPECT_TRUE(fs::equivalent(to / "a/model.safetensors", folder_ / "blob"));
  EXPECT_FALSE(fs::is_symlink(to / "a/model.safetensors"));
  EXPECT_FALSE(fs::equivalent(to / "a/config.json", model_ / "a/config.json"));
  EXPECT_EQ(read_text_file(to / "a/config.json"), "x");
  EXPECT_FALSE(fs::exists(to / "other"));
}

TEST_F(ModelCopy, CopiesToAnotherFileSystem) {
  const fs::path other = "/dev/shm";
  struct stat here = {};
  struct stat there = {};
  if (::stat(other.c_str(), &there) != 0 || ::stat(folder_.path().c_str(), &here) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "no other file system";
  }
  const std::string content(20'000'000, 'w');
  write(model_ / "a/model.safetensors", content);
  const auto files = files_of_model(model_, "", {});
  EXPECT_GT(bytes_to_copy(files, other), content.size());
  const fs::path to = other / folder_.path().filename();
  fs::create_directory(to);
  int calls = 0;
  copy_files(files, to, [&] { ++calls; });
  EXPECT_EQ(read_text_file(to / "a/model.safetensors"), content);
  EXPECT_GE(calls, 10);
  fs::remove_all(to);
}

TEST_F(ModelCopy, StopsWhenAsked) {
  const fs::path to = folder_ / "copy";
  fs::create_directory(to);
  EXPECT_ERROR(
      copy_files(files_of_model(model_, "", {}), to, [] { fail(ErrorCode::Cancelled, "enough"); }),
      ErrorCode::Cancelled, "enough");
  EXPECT_TRUE(fs::is_empty(to));
}

}  // namespace
}  // namespace difflet::pipelines
