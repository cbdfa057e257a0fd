#include "difflet/io/hub/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/sha256.h"
#include "difflet/io/hub/protocol.h"

namespace difflet::io::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRef = 256;  // bytes of a file in refs/

// Errors of symlink() that say that the file system, or its owner, has no links.
bool refuses_links(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

void replace_by_link(const fs::path& target, const fs::path& link) {
  const fs::path next = link.string() + ".difflet.tmp";
  ::unlink(next.c_str());
  if (::symlink(target.c_str(), next.c_str()) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  if (::rename(next.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(next.c_str());
    fail_write(link, error);
  }
}

void copy_blob(const fs::path& from, const fs::path& to) {
  const fs::path next = to.string() + ".difflet.tmp";
  std::error_code error;
  fs::copy_file(from, next, fs::copy_options::overwrite_existing, error);
  if (!error) {
    fs::rename(next, to, error);
  }
  if (error) {
    const int code = error.value();
    fs::remove(next, error);
    fail_write(to, code);
  }
}

}  // namespace

void fail_write(const fs::path& path, int error) {
  const std::string why = std::generic_category().message(error);
  check(error != ENOSPC && error != EDQUOT && error != EFBIG, ErrorCode::ResourceExhausted,
        "cannot write '{}': {}; what has arrived is kept: free some space and try again, or set "
        "HF_HUB_CACHE to a folder with more",
        path.string(), why);
  fail(ErrorCode::Unavailable,
       "cannot write '{}': {}; set HF_HUB_CACHE to a folder that this user may write",
       path.string(), why);
}

void make_cache_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail_write(folder, error.value());
  }
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)::fsync(fd);
    ::close(fd);
  }
}

std::optional<std::uint64_t> regular_size(const fs::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)
             ? std::optional(static_cast<std::uint64_t>(info.st_size))
             : std::nullopt;
}

RepoCache::RepoCache(const HubOptions& options, const RepoId& id)
    : cache_(options.cache),
      folder_(options.cache / id.folder_name()),
      name_(id.folder_name()),
      links_(options.links) {}

fs::path RepoCache::blob(const std::string& etag) const {
  check(is_digest(etag), ErrorCode::DataLoss, "'{}' is not the hash of a file", etag);
  return folder_ / "blobs" / etag;
}

fs::path RepoCache::partial(const std::string& etag) const {
  return blob(etag).string() + ".incomplete";
}

fs::path RepoCache::lock(const std::string& etag) const {
  return cache_ / ".locks" / name_ / (etag + ".lock");
}

fs::path RepoCache::snapshot(const std::string& commit) const {
  check(is_commit(commit), ErrorCode::DataLoss, "'{}' is not a commit hash", commit);
  return folder_ / "snapshots" / commit;
}

fs::path RepoCache::pointer(const std::string& commit, const std::string& path) const {
  check(is_plain_path(path), ErrorCode::DataLoss, "'{}' is not the path of a file in a repository",
        path);
  return snapshot(commit) / path;
}

bool RepoCache::has_blob(const std::string& etag, std::uint64_t size) const {
  const auto found = regular_size(blob(etag));
  return found && (size == kAnySize || *found == size);
}

bool RepoCache::has_pointer(const std::string& commit, const std::string& path,
                            std::uint64_t size) const {
  const auto found = regular_size(pointer(commit, path));
  return found && (size == kAnySize || *found == size);
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  check_revision(revision);
  if (is_commit(revision)) {
    return revision;
  }
  const fs::path file = folder_ / "refs" / revision;
  if (!regular_size(file)) {
    return std::nullopt;
  }
  std::string commit = read_text_file(file, kMaxRef);
  commit.erase(std::min(commit.find_last_not_of(" \r\n\t") + 1, commit.size()));
  check(is_commit(commit), ErrorCode::DataLoss, "'{}' does not hold a commit hash", file.string());
  return commit;
}

void RepoCache::make_folders() const {
  make_cache_folder(folder_ / "blobs");
  make_cache_folder(folder_ / "snapshots");
  make_cache_folder(cache_ / ".locks" / name_);
}

bool RepoCache::is_referenced(const fs::path& blob) const {
  std::error_code error;
  for (fs::recursive_directory_iterator item(folder_ / "snapshots", error);
       !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    std::error_code ignored;
    if (item->is_symlink(ignored) && fs::equivalent(item->path(), blob, ignored)) {
      return true;
    }
  }
  return false;
}

void RepoCache::place(const std::string& commit, const std::string& path,
                      const std::string& etag) const {
  const fs::path to = pointer(commit, path);
  const fs::path from = blob(etag);
  make_cache_folder(to.parent_path());
  if (links_ == LinkMode::Links) {
    try {
      replace_by_link(from.lexically_relative(to.parent_path()), to);
      return;
    } catch (const std::system_error& e) {
      if (!refuses_links(e.code().value())) {
        fail_write(to, e.code().value());
      }
    }
  }
  if (is_referenced(from) || fs::is_symlink(from)) {
    copy_blob(from, to);
  } else if (::rename(from.c_str(), to.c_str()) != 0) {
    fail_write(to, errno);
  }
}

void RepoCache::write_ref(const std::string& revision, const std::string& commit) const {
  check_revision(revision);
  if (revision == commit) {
    return;
  }
  const fs::path file = folder_ / "refs" / revision;
  std::error_code error;
  if (regular_size(file) == commit.size() && read_text_file(file, kMaxRef) == commit) {
    return;
  }
  make_cache_folder(file.parent_path());
  try {
    write_file_atomic(file, std::as_bytes(std::span(commit)));
  } catch (const Error& e) {
    fail(e.code(), "{}; set HF_HUB_CACHE to a folder that this user may write", e.message());
  }
}

}  // namespace difflet::io::hub
