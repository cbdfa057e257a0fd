#include "difflet/base/partial_folder.h"

#include <iterator>
#include <vector>

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

// As a killed process leaves it: marked, and locked by nobody.
fs::path leave(const fs::path& target) {
  fs::path place;
  const fs::path kept = target.parent_path() / "moved";
  {
    const PartialFolder partial(target);
    write(partial.path() / "f");
    place = partial.path().parent_path();
    fs::copy(place, kept, fs::copy_options::recursive);
  }
  fs::rename(kept, place);
  return place;
}

TEST(PartialFolder, ClearsWhatWasLeft) {
  const TemporaryFolder folder;
  const fs::path one = leave(folder / "one");
  const fs::path two = leave(folder / "two");
  const fs::path three = leave(folder / "three");
  EXPECT_FALSE(fs::exists(one));  // gone with the second
  write(three / "mine");
  const PartialFolder partial(folder / "one");
  EXPECT_FALSE(fs::exists(two));
  EXPECT_FALSE(fs::exists(three / "content"));
  EXPECT_TRUE(fs::exists(three / "mine"));
  EXPECT_TRUE(fs::is_empty(partial.path()));
}

TEST(PartialFolder, LeavesOtherFoldersAlone) {
  const TemporaryFolder folder;
  const std::vector<fs::path> others{"one.partial", ".difflet-0123456789abcdef.partial",
                                     ".difflet-.partial"};
  for (const fs::path& other : others) {
    fs::create_directories(folder / other / "content");
    write(folder / other / "content/f");
    write(folder / other / "difflet-partial-folder");  // that says something else
  }
  write(folder / "two.partial");
  fs::create_symlink("nowhere", folder / "three.partial");
  for (const char* name : {"one", "two", "three"}) {
    PartialFolder partial(folder / name);
    partial.keep();
  }
  for (const fs::path& other : others) {
    EXPECT_TRUE(fs::exists(folder / other / "content/f")) << other;
  }
  EXPECT_TRUE(fs::exists(folder / "two.partial"));
  EXPECT_TRUE(fs::is_symlink(folder / "three.partial"));
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
  const PartialFolder beside(folder / "two");
  EXPECT_TRUE(fs::exists(partial.path() / "f"));
}

TEST(PartialFolder, RefusesNamesThatCannotBe) {
  for (const char* name : {"", ".", "..", "/"}) {
    EXPECT_ERROR(PartialFolder{name}, ErrorCode::InvalidArgument, "names no folder");
  }
  const TemporaryFolder folder;
  write(folder / "f");
  EXPECT_THROW(PartialFolder(folder / "f/one"), Error);
  EXPECT_THROW(PartialFolder(folder / std::string(300, 'x')), Error);
  EXPECT_ERROR(PartialFolder("/proc"), ErrorCode::InvalidArgument, "a disk is mounted there");
  EXPECT_ERROR(PartialFolder("/proc/q"), ErrorCode::Unavailable,
               "nothing can be written in '/proc'");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace difflet
