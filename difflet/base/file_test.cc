#include "difflet/base/file.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(MappedFile, GivesTheBytes) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("hello"));
  const auto file = MappedFile::open(folder / "f");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()),
            "hello");
  EXPECT_EQ(file->path(), folder / "f");
}

TEST(MappedFile, EmptyFile) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", {});
  EXPECT_TRUE(MappedFile::open(folder / "f")->bytes().empty());
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("abc"));
  const auto file = MappedFile::open(folder / "f");
  fs::remove(folder / "f");
  EXPECT_EQ(static_cast<char>(file->bytes()[2]), 'c');
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile::open(folder / "absent"), ErrorCode::NotFound, "absent");
  EXPECT_ERROR(MappedFile::open(folder.path()), ErrorCode::InvalidArgument, "is a directory");
  EXPECT_ERROR(MappedFile::open("/dev/null"), ErrorCode::InvalidArgument, "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile::open(folder / "pipe"), ErrorCode::InvalidArgument, "not a regular file");
  EXPECT_ERROR(MappedFile::open(folder / std::string(300, 'x')), ErrorCode::InvalidArgument, "xxx");
}

TEST(MappedFile, AnUnreadableFileIsUnavailable) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may read anything";
  }
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("x"));
  fs::permissions(folder / "f", fs::perms::none);
  EXPECT_ERROR(MappedFile::open(folder / "f"), ErrorCode::Unavailable, "Permission denied");
}

TEST(ReadTextFile, ReadsUpToTheLimit) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("12345"));
  EXPECT_EQ(read_text_file(folder / "f"), "12345");
  EXPECT_EQ(read_text_file(folder / "f", 5), "12345");
  EXPECT_ERROR(read_text_file(folder / "f", 4), ErrorCode::ResourceExhausted, "4 bytes");
  EXPECT_ERROR(read_text_file(folder.path()), ErrorCode::InvalidArgument, "is a directory");
}

// Files of /proc say that they are empty.
TEST(ReadTextFile, ReadsFilesOfUnknownSize) {
  EXPECT_NE(read_text_file("/proc/self/status").find("Pid:"), std::string::npos);
}

TEST(WriteFileAtomic, ReplacesTheWholeFileAndKeepsItsMode) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("a longer first text"));
  fs::permissions(folder / "f", fs::perms::owner_read | fs::perms::owner_write);
  write_file_atomic(folder / "f", bytes_of("short"));
  EXPECT_EQ(read_text_file(folder / "f"), "short");
  EXPECT_EQ(fs::status(folder / "f").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteFileAtomic, JoinsParts) {
  const TemporaryFolder folder;
  const std::array parts = {bytes_of("ab"), bytes_of(""), bytes_of("c")};
  write_parts_atomic(folder / "f", parts);
  EXPECT_EQ(read_text_file(folder / "f"), "abc");
}

TEST(WriteFileAtomic, FollowsALink) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "target", bytes_of("old"));
  fs::create_symlink("target", folder / "link");
  write_file_atomic(folder / "link", bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text_file(folder / "target"), "new");
}

TEST(WriteFileAtomic, FollowsALinkToAFileThatIsNotThere) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  fs::create_symlink("in/target", folder / "link");
  write_file_atomic(folder / "link", bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text_file(folder / "in/target"), "new");
  fs::create_symlink("circle", folder / "circle");
  EXPECT_ERROR(write_file_atomic(folder / "circle", bytes_of("x")), ErrorCode::InvalidArgument,
               "circle");
}

TEST(StagedFile, HasNoNameBeforeItIsKept) {
  const TemporaryFolder folder;
  const std::span<const std::byte> bytes = bytes_of("new");
  write_file_atomic(folder / "a", bytes_of("old"));
  { const StagedFile dropped(folder / "a", std::span(&bytes, 1)); }
  EXPECT_EQ(read_text_file(folder / "a"), "old");
  StagedFile first(folder / "a", std::span(&bytes, 1));
  StagedFile kept = std::move(first);
  EXPECT_EQ(read_text_file(folder / "a"), "old");
  kept.keep();
  EXPECT_EQ(read_text_file(folder / "a"), "new");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteFileAtomic, TakesTheLongestNames) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file_atomic(folder / name, bytes_of("x"));
  EXPECT_EQ(read_text_file(folder / name), "x");
  EXPECT_ERROR(write_file_atomic(folder / (name + "n"), bytes_of("x")), ErrorCode::InvalidArgument,
               "too long");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteFileAtomic, RefusesFoldersAndDevices) {
  const TemporaryFolder folder;
  EXPECT_ERROR(write_file_atomic(folder.path(), bytes_of("x")), ErrorCode::InvalidArgument,
               "is a directory");
  EXPECT_ERROR(write_file_atomic(folder.path() / "", bytes_of("x")), ErrorCode::InvalidArgument,
               "names no file");
  EXPECT_ERROR(write_file_atomic("/dev/null", bytes_of("x")), ErrorCode::InvalidArgument,
               "not a regular file");
  EXPECT_ERROR(write_file_atomic(folder / "absent/f", bytes_of("x")), ErrorCode::NotFound,
               "no folder");
  write_file_atomic(folder / "f", bytes_of("x"));
  EXPECT_ERROR(write_file_atomic(folder / "f/g", bytes_of("x")), ErrorCode::NotFound, "no folder");
}

// The size limit of the process stands in for a full disk: write() fails in the middle.
TEST(WriteFileAtomic, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "f", bytes_of("old"));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string large(100'000, 'x');
  const Error e = testing::error_of([&] { write_file_atomic(folder / "f", bytes_of(large)); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(e.code(), ErrorCode::ResourceExhausted) << e.message();
  EXPECT_NE(e.message().find((folder / "f").string()), std::string::npos);
  EXPECT_EQ(read_text_file(folder / "f"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteFileAtomic, AFullDiskIsResourceExhausted) {
  const TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "no permission to mount";
  }
  const std::string large(1'000'000, 'x');
  EXPECT_ERROR(write_file_atomic(folder / "f", bytes_of(large)), ErrorCode::ResourceExhausted,
               "No space left");
  EXPECT_EQ(entries_in(folder.path()), 0U);
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

}  // namespace
}  // namespace difflet
