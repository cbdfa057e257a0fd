#include "difflet/cli/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "difflet/base/error.h"

namespace difflet::cli {

void check_writable(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  // write_file_atomic follows a link and makes its temporary file beside the target.
  const fs::path target =
      fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : path;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  check(target.has_filename(), ErrorCode::InvalidArgument, "cannot write '{}': not a file name",
        path.string());
  check(fs::exists(folder, ignored), ErrorCode::NotFound,
        "cannot write '{}': there is no folder '{}'", path.string(), folder.string());
  check(fs::is_directory(folder, ignored), ErrorCode::InvalidArgument,
        "cannot write '{}': '{}' is not a folder", path.string(), folder.string());
  std::error_code status;
  const bool exists = fs::exists(target, status);
  check(!status, ErrorCode::InvalidArgument, "cannot write '{}': {}", path.string(),
        status.message());
  check(!exists || fs::is_regular_file(target, ignored), ErrorCode::InvalidArgument,
        "cannot write '{}': not a regular file", path.string());
  const int refused = ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  check(refused == 0, ErrorCode::Unavailable, "cannot write '{}': {}", path.string(),
        std::strerror(refused));
}

}  // namespace difflet::cli
