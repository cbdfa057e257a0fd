// list_models(): what is in the cache, counted as huggingface_hub counts.
#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/io/hub/snapshot.h"

namespace difflet::io::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kIgnored = ".DS_Store";
constexpr std::size_t kMaxRef = 256;

// Throws DataLoss; becomes CachedModel::problem.
[[noreturn]] void damaged(const std::string& what) { raise(ErrorCode::DataLoss, what); }

// "models--org--name" as "org/name".
std::string id_of(std::string_view folder) {
  std::string id;
  for (std::string_view rest = folder.substr(kPrefix.size()); !rest.empty();) {
    const std::size_t end = std::min(rest.find("--"), rest.size());
    id.append(rest.substr(0, end));
    rest.remove_prefix(end);
    if (rest.starts_with("--")) {
      id.push_back('/');
      rest.remove_prefix(2);
    }
  }
  return id;
}

std::map<std::string, std::vector<std::string>> refs_by_commit(const fs::path& folder) {
  std::map<std::string, std::vector<std::string>> refs;
  std::error_code error;
  for (fs::recursive_directory_iterator item(folder, error);
       !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    if (item->is_regular_file() && item->path().filename() != kIgnored) {
      refs[read_text_file(item->path(), kMaxRef)].push_back(
          item->path().lexically_relative(folder).generic_string());
    }
  }
  return refs;
}

using BlobSizes = std::map<fs::path, std::uint64_t>;

CachedRevision scan_revision(const fs::path& folder, BlobSizes& all) {
  CachedRevision revision{.commit = folder.filename().string(), .folder = folder};
  std::set<fs::path> blobs;
  for (const fs::directory_entry& item : fs::recursive_directory_iterator(folder)) {
    if (item.is_directory()) {
      continue;
    }
    const fs::path blob =
        item.is_symlink()
            ? (item.path().parent_path() / fs::read_symlink(item.path())).lexically_normal()
            : item.path();
    const auto size = regular_size(blob);
    if (!size) {
      damaged(fmt::format("'{}' leads to a blob that is gone", item.path().string()));
    }
    all.emplace(blob, *size);
    revision.bytes += blobs.insert(blob).second ? *size : 0;
    ++revision.files;
  }
  return revision;
}

void scan_model(CachedModel& model) {
  const fs::path snapshots = model.folder / "snapshots";
  if (!fs::is_directory(snapshots)) {
    damaged("it has no folder snapshots");
  }
  auto refs = refs_by_commit(model.folder / "refs");
  BlobSizes blobs;
  for (const fs::directory_entry& item : fs::directory_iterator(snapshots)) {
    if (item.path().filename() == kIgnored) {
      continue;
    }
    if (!item.is_directory()) {
      damaged(fmt::format("'{}' is not a folder", item.path().string()));
    }
    model.revisions.push_back(scan_revision(item.path(), blobs));
    auto named = refs.extract(model.revisions.back().commit);
    if (!named.empty()) {
      model.revisions.back().refs = std::move(named.mapped());
      std::ranges::sort(model.revisions.back().refs);
    }
  }
  if (!refs.empty()) {
    damaged(fmt::format("{} names a commit that is not there", refs.begin()->second.front()));
  }
  std::ranges::sort(model.revisions, {}, &CachedRevision::commit);
  model.files = blobs.size();
  for (const auto& [path, size] : blobs) {
    model.bytes += size;
  }
}

std::uint64_t incomplete_bytes(const fs::path& blobs) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator item(blobs, error); !error && item != fs::directory_iterator();
       item.increment(error)) {
    bytes += item->path().extension() == ".incomplete" ? regular_size(item->path()).value_or(0) : 0;
  }
  return bytes;
}

}  // namespace

std::vector<CachedModel> list_models(const HubOptions& options) {
  std::vector<CachedModel> models;
  std::error_code error;
  if (!fs::exists(options.cache, error)) {
    return models;
  }
  fs::directory_iterator item(options.cache, error);
  for (; !error && item != fs::directory_iterator(); item.increment(error)) {
    const std::string name = item->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with(kPrefix) || !item->is_directory(ignored)) {
      continue;
    }
    CachedModel model{.id = id_of(name), .folder = item->path()};
    model.incomplete_bytes = incomplete_bytes(item->path() / "blobs");
    try {
      scan_model(model);
    } catch (const Error& e) {
      model.problem = e.message();
    } catch (const fs::filesystem_error& e) {
      model.problem = e.code().message();
    }
    models.push_back(std::move(model));
  }
  check(!error, ErrorCode::Unavailable, "cannot read '{}': {}", options.cache.string(),
        error.message());
  std::ranges::sort(models, {}, &CachedModel::id);
  return models;
}

}  // namespace difflet::io::hub
