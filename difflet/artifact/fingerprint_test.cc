#include "difflet/artifact/fingerprint.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using ::difflet::testing::TemporaryFolder;

HostTensor floats(std::int64_t n, float value) {
  return HostTensor::from({n}, std::vector<float>(static_cast<std::size_t>(n), value));
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

class FingerprintTest : public ::testing::Test {
 protected:
  FingerprintTest() {
    fs::create_directories(model_);
    io::write_safetensors(model_ / "model.safetensors", tensors_);
    write_text(model_ / "config.json", R"({"a": 1, "b": [2]})");
  }
  std::string digest() { return source_of(model_, "", "", threads_).content; }

  TemporaryFolder folder_;
  ThreadPool threads_{2};
  fs::path model_ = folder_ / "model";
  std::map<std::string, HostTensor> tensors_ = {{"a", floats(10, 1)}, {"b", floats(5, 2)}};
};

TEST_F(FingerprintTest, DependsOnContentAndNotOnFiles) {
  const std::string first = digest();
  EXPECT_EQ(first.size(), 64U);
  // Sharded, and the same config in another spelling.
  io::write_safetensors(model_ / "model-1.safetensors", {{"b", tensors_["b"]}});
  io::write_safetensors(model_ / "model-2.safetensors", {{"a", tensors_["a"]}});
  write_text(model_ / "model.safetensors.index.json",
             R"({"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors"}})");
  fs::remove(model_ / "model.safetensors");
  write_text(model_ / "config.json", R"({"b":[2],"a":1})");
  EXPECT_EQ(digest(), first);
}

TEST_F(FingerprintTest, EveryPartOfTheContentCounts) {
  const std::string first = digest();
  const auto changed = [&](const std::map<std::string, HostTensor>& tensors) {
    io::write_safetensors(model_ / "model.safetensors", tensors);
    return digest() != first;
  };
  EXPECT_FALSE(changed(tensors_));
  EXPECT_TRUE(changed({{"a", floats(10, 1)}, {"b", floats(5, 3)}}));
  EXPECT_TRUE(changed({{"a", floats(10, 1)}, {"c", floats(5, 2)}}));
  EXPECT_TRUE(changed({{"a", floats(10, 1).reshaped({2, 5})}, {"b", floats(5, 2)}}));
  EXPECT_TRUE(changed({{"a", floats(10, 1)}}));
  EXPECT_TRUE(changed({{"a", floats(10, 1).to(DType::BF16)}, {"b", floats(5, 2)}}));
  EXPECT_FALSE(changed(tensors_));
  write_text(model_ / "config.json", R"({"a": 1, "b": [3]})");
  EXPECT_NE(digest(), first);
  fs::remove(model_ / "config.json");
  EXPECT_NE(digest(), first);
}

TEST_F(FingerprintTest, LargeTensorsAreHashedInChunks) {
  constexpr std::int64_t kCount = 9'000'000;  // 36 MB: three chunks
  HostTensor large = floats(kCount, 1);
  io::write_safetensors(model_ / "model.safetensors", {{"a", large}});
  const std::string first = digest();
  ThreadPool one(1);
  EXPECT_EQ(source_of(model_, "", "", one).content, first);
  HostTensor other = floats(kCount, 1);
  other.mutable_as<float>()[kCount - 1] = 2;
  io::write_safetensors(model_ / "model.safetensors", {{"a", other}});
  EXPECT_NE(digest(), first);
}

TEST_F(FingerprintTest, IsKeptForFilesThatHaveSettled) {
  const fs::path store = folder_ / "store";
  FingerprintReport report;
  const auto run = [&] { return source_of(model_, "", store, threads_, &report).content; };
  const std::string first = run();
  EXPECT_FALSE(fs::exists(store / "fingerprints")) << "the files are too new";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_EQ(run(), first);
  EXPECT_FALSE(report.cached);
  EXPECT_EQ(run(), first);
  EXPECT_TRUE(report.cached);
  // Another file with the old one's times.
  io::write_safetensors(model_ / "model.safetensors", {{"a", floats(10, 7)}, {"b", floats(5, 2)}});
  EXPECT_NE(run(), first);
  EXPECT_FALSE(report.cached);
}

TEST_F(FingerprintTest, AStoreThatCannotBeWrittenIsNoError) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  write_text(folder_ / "file", "x");
  EXPECT_EQ(source_of(model_, "", folder_ / "file", threads_).content, digest());
  EXPECT_EQ(source_of(model_, "", folder_ / "file" / "below", threads_).content, digest());
}

TEST_F(FingerprintTest, SnapshotsAreKnownByTheirPath) {
  const std::string revision = "0123456789abcdef0123456789abcdef01234567";
  const fs::path snapshot = folder_ / "hub/models--org--some-model/snapshots" / revision;
  fs::create_directories(snapshot / "transformer");
  const auto source = snapshot_source(snapshot / "transformer", "fp16");
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(*source, (Source{.id = "org/some-model",
                             .revision = revision,
                             .subfolder = "transformer",
                             .variant = "fp16",
                             .content = ""}));
  EXPECT_EQ(snapshot_source(snapshot, "")->subfolder, "");
  fs::create_directory_symlink(snapshot, folder_ / "link");
  EXPECT_EQ(snapshot_source(folder_ / "link/transformer/", "fp16"), source);
  EXPECT_EQ(source_of(folder_ / "link/transformer", "fp16", "", threads_), *source);
  fs::create_directories(folder_ / "hub/models--org--some-model/snapshots/main/x");
  EXPECT_FALSE(snapshot_source(folder_ / "hub/models--org--some-model/snapshots/main/x", ""));
  EXPECT_FALSE(snapshot_source(model_, ""));
  EXPECT_FALSE(snapshot_source(folder_ / "absent", ""));
}

}  // namespace
}  // namespace difflet::artifact
