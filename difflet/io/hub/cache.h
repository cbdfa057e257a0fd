// The folders of the hub's cache, as huggingface_hub lays them out:
//   models--ORG--NAME/blobs/<etag>, snapshots/<commit>/<path> -> ../../blobs/<etag>, refs/<revision>
//   .locks/models--ORG--NAME/<etag>.lock
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "difflet/io/hub/options.h"
#include "difflet/io/hub/repo_id.h"

namespace difflet::io::hub {

inline constexpr std::uint64_t kAnySize = ~std::uint64_t{0};

// One repository's part of the cache. Reading never writes; what writes throws Unavailable (a cache
// that may not be written, with HF_HUB_CACHE as the way out) or ResourceExhausted (disk).
class RepoCache {
 public:
  RepoCache(const HubOptions& options, const RepoId& id);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path partial(const std::string& etag) const;  // <etag>.incomplete
  std::filesystem::path lock(const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path pointer(const std::string& commit, const std::string& path) const;

  // Whether a complete file of that size is there.
  bool has_blob(const std::string& etag, std::uint64_t size) const;
  bool has_pointer(const std::string& commit, const std::string& path, std::uint64_t size) const;
  // The commit of a branch, tag or commit; nothing when the cache does not know it.
  std::optional<std::string> commit_of(const std::string& revision) const;

  void make_folders() const;
  // Makes the snapshot's file out of the blob: a link, or, where links are refused, the file itself,
  // which is moved unless another snapshot refers to it.
  void place(const std::string& commit, const std::string& path, const std::string& etag) const;
  // Remembers the commit of a branch or tag.
  void write_ref(const std::string& revision, const std::string& commit) const;

 private:
  bool is_referenced(const std::filesystem::path& blob) const;

  std::filesystem::path cache_;
  std::filesystem::path folder_;
  std::string name_;
  LinkMode links_;
};

// Creates `folder` and its parents. Throws as RepoCache does.
void make_cache_folder(const std::filesystem::path& folder);
// Throws as RepoCache does, for what writing `path` ended with.
[[noreturn]] void fail_write(const std::filesystem::path& path, int error);
// Makes renames in `folder` durable, where the file system can.
void sync_folder(const std::filesystem::path& folder);
// The size of what `path` leads to; nothing when that is no regular file.
std::optional<std::uint64_t> regular_size(const std::filesystem::path& path);

}  // namespace difflet::io::hub
