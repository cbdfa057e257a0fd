#include "difflet/base/partial_folder.h"

#include <gtest/gtest.h>

#include "difflet/base/file.h"
#include "difflet/base/testing.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

void write(const fs::path& path) {
  write_file_atomic(path, std::as_bytes(std::span(std::string_view("x"))));
}

TEST(PartialFolder, AppearsAsAWhole) {
  const TemporaryFolder folder;
  PartialFolder partial(folder / "new/one/");
  write(partial.path() / "f");
  EXPECT_FALSE(fs::exists(folder / "new/one"));
  partial.keep();
  EXPECT_TRUE(fs::exists(folder / "new/one/f"));
  EXPECT_FALSE(fs::exists(partial.path()));
}

TEST(PartialFolder, LeavesNothingUnlessKept) {
  const TemporaryFolder folder;
  {
    const PartialFolder partial(folder / "one");
    write(partial.path() / "f");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(PartialFolder, ClearsWhatWasLeft) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "one.partial/deep");
  write(folder / "one.partial/deep/f");
  PartialFolder partial(folder / "one");
  EXPECT_TRUE(fs::is_empty(partial.path()));
}

TEST(PartialFolder, TakesTheNameOfAnEmptyFolderOnly) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "one");
  {
    PartialFolder partial(folder / "one");
    write(partial.path() / "f");
    partial.keep();
  }
  {
    PartialFolder partial(folder / "one");
    EXPECT_ERROR(partial.keep(), ErrorCode::Unavailable, "not empty");
  }
  EXPECT_TRUE(fs::exists(folder / "one/f"));
}

TEST(PartialFolder, HasOneWriter) {
  const TemporaryFolder folder;
  const PartialFolder partial(folder / "one");
  write(partial.path() / "f");
  EXPECT_ERROR(PartialFolder(folder / "one"), ErrorCode::Unavailable, "another process");
  EXPECT_TRUE(fs::exists(partial.path() / "f"));
}

TEST(PartialFolder, RefusesNamesThatCannotBe) {
  for (const char* name : {"", ".", "..", "/"}) {
    EXPECT_ERROR(PartialFolder{name}, ErrorCode::InvalidArgument, "names no folder");
  }
  const TemporaryFolder folder;
  write(folder / "f");
  EXPECT_THROW(PartialFolder(folder / "f/one"), Error);
}

}  // namespace
}  // namespace difflet
