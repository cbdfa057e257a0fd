// Helpers for tests of any folder.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "difflet/base/error.h"

namespace difflet::testing {

// Runs f, which must throw Error; gives that error.
template <typename F>
Error error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return {ErrorCode::Internal, "no error was thrown"};
}

// f throws Error with this code and a message that holds `part`.
#define EXPECT_ERROR(statement, expected_code, part)                                  \
  do {                                                                                \
    const ::difflet::Error caught = ::difflet::testing::error_of([&] { statement; }); \
    EXPECT_EQ(::difflet::error_code_name(caught.code()),                              \
              ::difflet::error_code_name(expected_code))                              \
        << caught.message();                                                          \
    EXPECT_NE(caught.message().find(part), std::string::npos)                         \
        << "'" << caught.message() << "' does not hold '" << (part) << "'";           \
  } while (false)

// A new empty folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "difflet-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
    EXPECT_FALSE(path_.empty()) << "no temporary folder";
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace difflet::testing
