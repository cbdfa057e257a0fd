// Models that are in the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "difflet/io/hub/cache.h"
#include "difflet/io/hub/selection.h"

namespace difflet::io::hub {

struct FoundSnapshot {
  std::filesystem::path folder;  // empty when it is not there or not complete
  std::string commit;            // empty when the cache does not know the revision
  std::string reason;            // why there is no folder, as the rest of "... in the cache: "
};

// The folder of a model at a branch, tag or commit, if it holds all that is wanted. No network.
FoundSnapshot find_snapshot(const HubOptions& options, const RepoId& id,
                            const std::string& revision, const Wanted& wanted);

struct CachedRevision {
  std::string commit;
  std::vector<std::string> refs;  // branches and tags, sorted
  std::size_t files = 0;
  std::uint64_t bytes = 0;  // of its blobs, each once
  std::filesystem::path folder;
};
struct CachedModel {
  std::string id;
  std::filesystem::path folder;
  std::vector<CachedRevision> revisions;  // by commit
  std::size_t files = 0;                  // blobs of all revisions, each once
  std::uint64_t bytes = 0;
  std::uint64_t incomplete_bytes = 0;  // of downloads that were interrupted
  std::string problem;                 // empty, or what is wrong with it; then nothing else counts
};

// The models of the cache by id, counted as huggingface_hub's scan_cache_dir does. Nothing when there
// is no cache. Throws Unavailable when it cannot be read.
std::vector<CachedModel> list_models(const HubOptions& options);

}  // namespace difflet::io::hub
