#include "difflet/io/hub/snapshot.h"

#include <set>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/io/hub/protocol.h"

namespace difflet::io::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDepth = 8;

// Paths of the files below a snapshot; links to blobs that are gone do not count.
std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator item(folder, error);
  for (; !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    if (item.depth() > static_cast<int>(kMaxDepth)) {
      item.pop();
    } else if (regular_size(item->path())) {
      paths.insert(item->path().lexically_relative(folder).generic_string());
    }
  }
  return paths;
}

void look(const HubOptions& options, const RepoId& id, const std::string& revision,
          const Wanted& wanted, FoundSnapshot& found) {
  const RepoCache cache(options, id);
  const auto commit = cache.commit_of(revision);
  if (!commit) {
    found.reason = fmt::format("revision {} is not there", revision);
    return;
  }
  found.commit = *commit;
  const fs::path folder = cache.snapshot(*commit);
  const std::set<std::string> paths = files_below(folder);
  if (paths.empty()) {
    found.reason = fmt::format("revision {} has no files", revision);
    return;
  }
  const ReadText read = [&](const std::string& path) { return read_text_file(folder / path); };
  const Selection selection = select_files(paths, wanted, read, folder.string());
  if (selection.missing.empty()) {
    found.folder = folder;
  } else {
    found.reason =
        fmt::format("revision {} lacks {}", revision, fmt::join(selection.missing, ", "));
  }
}

}  // namespace

FoundSnapshot find_snapshot(const HubOptions& options, const RepoId& id,
                            const std::string& revision, const Wanted& wanted) {
  FoundSnapshot found;
  try {
    look(options, id, revision, wanted, found);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::DataLoss) {
      throw;
    }
    found.reason = e.message();  // a download repairs it
  }
  return found;
}

}  // namespace difflet::io::hub
