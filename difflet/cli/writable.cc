#include "difflet/cli/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::cli {

namespace fs = std::filesystem;

namespace {

void check_not_same(std::string_view option, const fs::path& output, const fs::path& input) {
  std::error_code absent;
  check(!fs::equivalent(output, input, absent), ErrorCode::InvalidArgument,
        "--{}: '{}' is an input, '{}': it is not overwritten", option, output.string(),
        input.string());
}

}  // namespace

void check_replaces_no_input(std::string_view option, const fs::path& output,
                             const fs::path& input) {
  std::error_code absent;
  if (!fs::exists(output, absent)) {
    return;
  }
  if (!fs::is_directory(input, absent)) {
    check_not_same(option, output, input);
    return;
  }
  for (fs::directory_iterator item(input, absent); !absent && item != fs::directory_iterator();
       item.increment(absent)) {
    check_not_same(option, output, item->path());
    std::error_code closed;
    if (!fs::is_directory(item->path(), closed)) {
      continue;
    }
    for (fs::directory_iterator file(item->path(), closed);
         !closed && file != fs::directory_iterator(); file.increment(closed)) {
      check_not_same(option, output, file->path());
    }
  }
}

fs::path new_folder(const fs::path& given) {
  fs::path output = given.has_filename() ? given : given.parent_path();
  std::error_code error;
  const bool exists = fs::exists(output, error);
  check(!error, ErrorCode::InvalidArgument, "cannot write '{}': {}", given.string(),
        error.message());
  std::error_code absent;
  const bool is_link = fs::is_symlink(output, absent);
  check(exists || !is_link, ErrorCode::InvalidArgument,
        "cannot write '{}': it is a link to '{}', which is not there", given.string(),
        is_link ? fs::read_symlink(output, absent).string() : "");
  check(!exists || fs::is_directory(output, error), ErrorCode::InvalidArgument,
        "cannot write '{}': it is not a folder", given.string());
  check(!exists || fs::is_empty(output, error) || error, ErrorCode::InvalidArgument,
        "'{}' is there and is not empty: it is not overwritten", given.string());
  if (error) {
    fail_errno("read", output, error.value());
  }
  if (is_link) {  // a rename would replace the link
    output = fs::canonical(output);
  }
  const fs::path parent = output.has_parent_path() ? output.parent_path() : fs::path(".");
  check(fs::is_directory(parent, error), ErrorCode::NotFound,
        "cannot write '{}': there is no folder '{}'", given.string(), parent.string());
  if (::access(parent.c_str(), W_OK | X_OK) != 0) {
    fail_errno("write", output, errno);
  }
  return output;
}

void check_writable(const fs::path& path) {
  std::error_code ignored;
  // The temporary file is made beside the target.
  const fs::path target = write_target(path);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  check(target.has_filename(), ErrorCode::InvalidArgument, "cannot write '{}': not a file name",
        path.string());
  check(fs::exists(folder, ignored), ErrorCode::NotFound,
        "cannot write '{}': there is no folder '{}'", path.string(), folder.string());
  check(fs::is_directory(folder, ignored), ErrorCode::InvalidArgument,
        "cannot write '{}': '{}' is not a folder", path.string(), folder.string());
  std::error_code status;
  const bool exists = fs::exists(path, status);
  check(!status, ErrorCode::InvalidArgument, "cannot write '{}': {}", path.string(),
        status.message());
  check(!exists || fs::is_regular_file(path, ignored), ErrorCode::InvalidArgument,
        "cannot write '{}': not a regular file", path.string());
  // A file that is write-protected stays, though a rename could replace it.
  const bool allowed = ::access(folder.c_str(), W_OK | X_OK) == 0 &&
                       (!exists || ::access(target.c_str(), W_OK) == 0);
  const int refused = allowed ? 0 : errno;
  check(refused == 0, ErrorCode::Unavailable, "cannot write '{}': {}", path.string(),
        std::strerror(refused));
}

}  // namespace difflet::cli
