// Store::list() and Store::verify().
#include <algorithm>
#include <map>
#include <utility>

#include "difflet/artifact/store_impl.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

bool is_in_use(const Folder& folder) {
  try {
    const Fd fd = folder.file(kManifest);
    const bool free = try_lock(fd, LockKind::Exclusive);
    unlock(fd);
    return !free;
  } catch (const Error&) {
    return false;
  }
}

// An entry and, when it is good, what keeps it from being removed.
struct Listed {
  StoreEntry entry;
  bool vanished = false;  // removed, or removed and made again, while it was read
  std::shared_ptr<const StoredArtifact> artifact;
  std::shared_ptr<const StoredWeights> weights;
};

Listed list_one(const Folder& root, EntryKind kind, const std::string& key,
                const std::string& generation) {
  Listed out;
  StoreEntry& entry = out.entry;
  entry.kind = kind;
  entry.key = key;
  entry.generation = generation;
  try {
    const auto folder = open_generation(root, kind_folder(kind), key, generation);
    check(folder.has_value(), ErrorCode::NotFound, "removed meanwhile");
    entry.bytes = folder->bytes();
    entry.in_use = is_in_use(*folder);
    if (kind == EntryKind::Artifact) {
      out.artifact = load_artifact(root, key, generation);
      entry.manifest = out.artifact->manifest;
    } else {
      out.weights = load_weights(root, key, generation);
      entry.weights = out.weights->manifest;
      entry.problem = out.weights->absent;
    }
  } catch (const Error& e) {
    entry.problem = e.message();
    out.vanished = e.code() == ErrorCode::NotFound;
  }
  return out;
}

// Another process removed it since its name was read.
bool is_gone(const Folder& root, const StoreEntry& entry) {
  try {
    return !open_generation(root, kind_folder(entry.kind), entry.key, entry.generation);
  } catch (const Error&) {
    return false;
  }
}

std::vector<Listed> list_kind(const Folder& root, EntryKind kind) {
  std::vector<Listed> out;
  std::vector<std::string> keys;
  try {
    keys = stored_keys(root, kind_folder(kind));
  } catch (const Error& e) {
    out.emplace_back();
    out.back().entry.kind = kind;
    out.back().entry.problem = e.message();
  }
  for (const std::string& key : keys) {
    try {
      std::vector<std::string> generations = stored_generations(root, kind_folder(kind), key);
      bool latest = true;
      std::vector<Listed> of_key;
      for (const std::string& generation : generations) {
        constexpr int kTries = 5;
        Listed one = list_one(root, kind, key, generation);
        for (int i = 1; i < kTries && one.vanished; ++i) {
          one = list_one(root, kind, key, generation);
        }
        if (one.vanished && is_gone(root, one.entry)) {
          continue;
        }
        of_key.push_back(std::move(one));
        StoreEntry& entry = of_key.back().entry;
        entry.latest = latest && entry.problem.empty();
        latest = latest && !entry.latest;
      }
      std::move(of_key.rbegin(), of_key.rend(), std::back_inserter(out));
    } catch (const Error& e) {
      out.emplace_back();
      out.back().entry = {.kind = kind, .key = key, .problem = e.message()};
    }
  }
  return out;
}

std::vector<Listed> list_all(const std::filesystem::path& path) {
  const StoreRoot root = open_store(path);
  std::vector<Listed> out;
  if (root.folder) {
    out = list_kind(*root.folder, EntryKind::Artifact);
    std::ranges::move(list_kind(*root.folder, EntryKind::Weights), std::back_inserter(out));
  }
  return out;
}

struct HashTask {
  std::size_t entry = 0;
  const Folder* folder = nullptr;
  const FileRecord* file = nullptr;
  std::string problem;
};

void add_tasks(std::vector<HashTask>& tasks, std::size_t entry, const Listed& listed) {
  if (listed.artifact) {
    for (const ProgramRecord& program : listed.artifact->manifest.programs) {
      tasks.push_back({entry, &listed.artifact->folder, &program.file, {}});
    }
  } else if (listed.weights && listed.entry.problem.empty()) {
    for (const FileRecord& file : listed.weights->manifest.files) {
      tasks.push_back({entry, &listed.weights->folder, &file, {}});
    }
  }
}

void check_hash(HashTask& task) {
  const std::string path = (task.folder->path() / task.file->name).string();
  try {
    const Fd fd = task.folder->file(task.file->name);
    Sha256 hash;
    hash_file(fd, path, 0, task.file->bytes, hash);
    check(hash.hex() == task.file->sha256, ErrorCode::DataLoss,
          "'{}' is damaged: its SHA-256 is not that of the manifest", path);
  } catch (const Error& e) {
    task.problem = e.message();
  }
}

std::vector<StoreEntry> entries_of(std::vector<Listed> all) {
  std::vector<StoreEntry> out;
  out.reserve(all.size());
  for (Listed& listed : all) {
    out.push_back(std::move(listed.entry));
  }
  return out;
}

}  // namespace

std::vector<StoreEntry> Store::list() const { return entries_of(list_all(root_)); }

std::vector<StoreEntry> Store::verify(ThreadPool& threads) const {
  std::vector<Listed> all = list_all(root_);
  std::vector<HashTask> tasks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    add_tasks(tasks, i, all[i]);
  }
  // The largest first, so that no thread ends up alone with one.
  std::ranges::sort(tasks, std::ranges::greater(), [](const HashTask& t) { return t.file->bytes; });
  threads.run(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t task, int /*thread*/) {
    check_hash(tasks[static_cast<std::size_t>(task)]);
  });
  for (const HashTask& task : tasks) {
    if (!task.problem.empty() && all[task.entry].entry.problem.empty()) {
      all[task.entry].entry.problem = task.problem;
    }
  }
  return entries_of(std::move(all));
}

}  // namespace difflet::artifact
