#include "difflet/artifact/archive.h"

#include <gmock/gmock.h>

#include "difflet/artifact/generation.h"
#include "difflet/artifact/store.h"
#include "difflet/artifact/testing.h"
#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using ::difflet::testing::TemporaryFolder;
using testing::identity;
using testing::is_whole;
using testing::publish;

constexpr std::size_t kTarBlock = 512;

class ArchiveTest : public ::testing::Test {
 protected:
  ArchiveTest() {
    publish(from_, id_);
    from_.export_archive(key_of(id_), file_);
  }
  void write(const std::string& text) const {
    write_file_atomic(file_, std::as_bytes(std::span(text)));
  }
  // Nothing is published, nothing stays in staging.
  void expect_refused(ErrorCode code, const std::string& part) {
    EXPECT_ERROR(to_.import_archive(file_), code, part);
    EXPECT_TRUE(to_.list().empty());
    EXPECT_TRUE(!fs::exists(to_.root() / kStaging) || fs::is_empty(to_.root() / kStaging));
  }

  TemporaryFolder folder_;
  ThreadPool threads_{1};
  Store from_{folder_ / "from"};
  Store to_{folder_ / "to"};
  Identity id_ = identity({4, 8}, 2);
  fs::path file_ = folder_ / "a.tar";
};

// A tar header's checksum over its changed fields.
void sign(std::string& tar, std::size_t header) {
  constexpr std::size_t kAt = 148;
  constexpr std::size_t kDigits = 8;
  tar.replace(header + kAt, kDigits, kDigits, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    sum += static_cast<unsigned char>(tar[header + i]);
  }
  tar.replace(header + kAt, kDigits, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

TEST_F(ArchiveTest, ComesBackWhole) {
  const Artifact a = to_.import_archive(file_);
  EXPECT_EQ(a.key(), key_of(id_));
  EXPECT_TRUE(is_whole(a, threads_, ShardMode::Mapped));
  EXPECT_TRUE(is_whole(*to_.find(id_).artifact, threads_, ShardMode::Copied));
  for (const StoreEntry& entry : to_.verify(threads_)) {
    EXPECT_EQ(entry.problem, "");
  }
  EXPECT_EQ(to_.import_archive(file_).generation(), "g000001") << "it is there already";
  const std::string first = read_text_file(file_);
  to_.export_archive(key_of(id_), file_);
  EXPECT_EQ(read_text_file(file_), first);
}

TEST_F(ArchiveTest, UsesWeightsThatAreThere) {
  const Artifact b = publish(to_, identity({16}, 2));
  const Artifact a = to_.import_archive(file_);
  EXPECT_EQ(a.manifest().weights, b.manifest().weights);
  EXPECT_TRUE(is_whole(a, threads_, ShardMode::Mapped));
}

TEST_F(ArchiveTest, ExportNeedsAWholeArtifact) {
  EXPECT_ERROR(to_.export_archive(key_of(id_), folder_ / "b"), ErrorCode::NotFound, "no store");
  EXPECT_ERROR(from_.export_archive("0123456789abcdef", folder_ / "b"), ErrorCode::NotFound,
               "0123456789abcdef");
  EXPECT_ERROR(from_.export_archive(key_of(id_), folder_ / "no" / "b"), ErrorCode::NotFound,
               "no folder");
  fs::remove_all(from_.root() / kWeights);
  EXPECT_ERROR(from_.export_archive(key_of(id_), folder_ / "b"), ErrorCode::NotFound,
               "weights are absent");
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(ArchiveTest, DamageIsRefused) {
  const std::string good = read_text_file(file_);
  std::string text = good;
  text[text.find("code of 0-step")] = 'X';
  write(text);
  expect_refused(ErrorCode::DataLoss, "'artifact/0-step.program' is damaged");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100}, good.size() / 4, good.size() / 2}) {
    write(good.substr(0, size));
    expect_refused(ErrorCode::DataLoss, "a.tar");
  }
  text = good;
  text.replace(text.find("\"schema\":1"), 10, "\"schema\":9");
  write(text);
  expect_refused(ErrorCode::Unsupported, "schema: 9");
  fs::remove(file_);
  expect_refused(ErrorCode::NotFound, "a.tar");
  fs::create_directory(file_);
  expect_refused(ErrorCode::InvalidArgument, "not a regular file");
}

TEST_F(ArchiveTest, NamesAndKindsOfMembersAreNotTaken) {
  const std::string good = read_text_file(file_);
  const std::size_t program = good.find("artifact/0-request.program");
  ASSERT_EQ(program % kTarBlock, 0U);
  const auto with_name = [&](const std::string& name) {
    std::string text = good;
    text.replace(program, 100, name + std::string(100 - name.size(), '\0'));
    sign(text, program);
    return text;
  };
  for (const char* name : {"/etc/passwd", "../../x", "artifact/../0-request.program", "x"}) {
    write(with_name(name));
    expect_refused(ErrorCode::DataLoss, "not 'artifact/0-request.program'");
  }
  for (const char type : {'1', '2', '3', '5', '6'}) {  // links, a device, a folder, a pipe
    std::string text = good;
    text[program + 156] = type;
    text.replace(program + 157, 11, "/etc/passwd");
    sign(text, program);
    write(text);
    expect_refused(ErrorCode::DataLoss, "a.tar");
  }
  // A member more, before the empty blocks that end the archive.
  std::string text = good;
  const std::size_t end = text.find_last_not_of('\0') / kTarBlock * kTarBlock + kTarBlock;
  text.insert(end, good.substr(program, 2 * kTarBlock));
  write(text);
  expect_refused(ErrorCode::DataLoss, "more members");
}

}  // namespace
}  // namespace difflet::artifact
