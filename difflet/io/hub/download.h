// A model from the hub into the cache: first what it takes, then the bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "difflet/io/hub/client.h"
#include "difflet/io/hub/selection.h"

namespace difflet::io::hub {

struct PlannedFile {
  std::string path;
  std::string etag;
  std::uint64_t size = 0;  // bytes
  std::uint64_t have = 0;  // bytes that are in the cache
};

struct DownloadPlan {
  RepoId id;
  std::string revision;
  std::string commit;
  std::filesystem::path folder;    // of the snapshot
  std::vector<PlannedFile> files;  // empty when the snapshot was found without asking the hub
  std::string note;                // why the hub was not asked; empty: it was
  bool complete = false;           // nothing is to be done

  std::uint64_t bytes() const noexcept;          // of all files
  std::uint64_t missing_bytes() const noexcept;  // that have to come
};

struct Progress {
  std::uint64_t bytes = 0, total = 0;  // of the plan's files
  std::size_t files = 0, total_files = 0;
  double bytes_per_s = 0;  // over the last seconds; 0: not known yet
  // Seconds to the end at that rate; negative: not known.
  double seconds_left() const noexcept;
};

// All of them called by the thread that called; any may be empty.
struct DownloadEvents {
  std::function<void(const Progress&)> progress;  // about ten times a second, and at the end
  Note note;
  StopRequest stop;
};

// Asks the hub for the commit, the list of files and what model_index.json and the indices of shards
// say, and looks at the cache; writes nothing. Offline, for a commit that is complete in the cache, and
// when the hub cannot be reached, the cache's snapshot is the plan. Throws what Client throws,
// NotFound when the repository lacks what is wanted, or when offline and the cache does.
DownloadPlan plan_download(const HubOptions& options, const RepoId& id, const std::string& revision,
                           const Wanted& wanted, const DownloadEvents& events);

// Downloads the plan's files, several at once, and returns the snapshot's folder, which gets its files
// only when all are there. Ends with the first error, and with Cancelled when asked to stop; what has
// arrived is resumed the next time. Throws what Client and RepoCache throw, DataLoss for bytes that
// are not those of the ETag, ResourceExhausted when the disk is too small, before the first byte.
std::filesystem::path run_download(const HubOptions& options, const DownloadPlan& plan,
                                   const DownloadEvents& events);

}  // namespace difflet::io::hub
