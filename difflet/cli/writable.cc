#include "difflet/cli/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::cli {

void check_writable(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
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
