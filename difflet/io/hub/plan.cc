// plan_download(): what a model takes, before the first byte.
#include <algorithm>
#include <map>
#include <set>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/io/hub/cache.h"
#include "difflet/io/hub/digest.h"
#include "difflet/io/hub/download.h"
#include "difflet/io/hub/snapshot.h"

namespace difflet::io::hub {
namespace {

constexpr std::size_t kMaxIndex = std::size_t{64} << 20U;  // bytes of a JSON file that decides

using FilesByPath = std::map<std::string, RemoteFile>;

FilesByPath by_path(std::vector<RemoteFile> files) {
  FilesByPath out;
  for (RemoteFile& file : files) {
    std::string path = file.path;
    out.emplace(std::move(path), std::move(file));
  }
  return out;
}

// From the cache, else from the hub; the same bytes in any case.
std::string read_checked(Client& client, const RepoCache& cache, const RepoId& id,
                         const std::string& commit, const RemoteFile& file) {
  if (is_digest(file.etag) && cache.has_blob(file.etag, file.size)) {
    return read_text_file(cache.blob(file.etag), kMaxIndex);
  }
  if (cache.has_pointer(commit, file.path, file.size)) {
    return read_text_file(cache.pointer(commit, file.path), kMaxIndex);
  }
  std::string text = client.read(id, commit, file.path, kMaxIndex);
  BlobDigest digest(file.etag, text.size());
  digest.update(std::as_bytes(std::span(text)));
  check(
      digest.hex() == file.etag, ErrorCode::DataLoss,
      "{}: {}: the bytes that came do not have the hash of the file, {}; a proxy may have changed "
      "them: try again",
      id.text, file.path, file.etag);
  return text;
}

std::uint64_t bytes_there(const RepoCache& cache, const std::string& commit,
                          const RemoteFile& file) {
  if (cache.has_pointer(commit, file.path, file.size) || cache.has_blob(file.etag, file.size)) {
    return file.size;
  }
  const std::uint64_t partial = regular_size(cache.partial(file.etag)).value_or(0);
  return partial <= file.size ? partial : 0;
}

void plan_files(Client& client, const RepoCache& cache, const Wanted& wanted, DownloadPlan& plan) {
  const FilesByPath files = by_path(client.tree(plan.id, plan.commit));
  std::set<std::string> paths;
  for (const auto& [path, file] : files) {
    paths.insert(path);
  }
  const ReadText read = [&](const std::string& path) {
    return read_checked(client, cache, plan.id, plan.commit, files.at(path));
  };
  const Selection selection = select_files(paths, wanted, read, plan.id.text);
  check(selection.missing.empty(), ErrorCode::NotFound,
        "'{}' at revision {} is not a model that can be used: it lacks {}", plan.id.text,
        plan.revision, fmt::join(selection.missing, ", "));
  plan.complete = true;
  for (const std::string& path : selection.files) {
    const RemoteFile& file = files.at(path);
    check(is_digest(file.etag), ErrorCode::DataLoss, "'{}': {} has no hash in the list of files",
          plan.id.text, path);
    plan.complete = plan.complete && cache.has_pointer(plan.commit, path, file.size);
    plan.files.push_back({.path = path,
                          .etag = file.etag,
                          .size = file.size,
                          .have = bytes_there(cache, plan.commit, file)});
  }
}

}  // namespace

std::uint64_t DownloadPlan::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const PlannedFile& file : files) {
    sum += file.size;
  }
  return sum;
}

std::uint64_t DownloadPlan::missing_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const PlannedFile& file : files) {
    sum += file.size - file.have;
  }
  return sum;
}

DownloadPlan plan_download(const HubOptions& options, const RepoId& id, const std::string& revision,
                           const Wanted& wanted, const DownloadEvents& events) {
  DownloadPlan plan{.id = id, .revision = revision};
  const RepoCache cache(options, id);
  const FoundSnapshot found = find_snapshot(options, id, revision, wanted);
  const auto take_found = [&](const std::string& why) {
    plan.commit = found.commit;
    plan.folder = found.folder;
    plan.note = why;
    plan.complete = true;
  };
  if (options.offline) {
    check(!found.folder.empty(), ErrorCode::NotFound,
          "'{}' is not complete in the cache '{}': {}; HF_HUB_OFFLINE forbids asking the hub",
          id.text, options.cache.string(), found.reason);
    take_found("offline");
    return plan;
  }
  if (is_commit(revision) && !found.folder.empty()) {
    take_found("this commit is in the cache");
    return plan;
  }
  // With something to fall back on, not for long.
  HubOptions patience = options;
  patience.attempts = found.folder.empty() ? options.attempts : std::min(options.attempts, 2);
  Client client(patience, events.stop, events.note);
  try {
    plan.commit = client.commit_of(id, revision);
    plan.folder = cache.snapshot(plan.commit);
    plan_files(client, cache, wanted, plan);
  } catch (const Error& e) {
    const bool usable = e.code() == ErrorCode::Unavailable && !found.folder.empty();
    if (!usable) {
      throw;
    }
    plan.files.clear();
    take_found(e.message());
  }
  return plan;
}

}  // namespace difflet::io::hub
