// Store::remove(), gc() and clean().
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "difflet/artifact/store_impl.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

struct Name {
  EntryKind kind = EntryKind::Artifact;
  std::string key, generation;

  std::string path() const { return fmt::format("{}/{}/{}", kind_folder(kind), key, generation); }
  bool operator<(const Name& o) const {
    return std::tie(kind, key, generation) < std::tie(o.kind, o.key, o.generation);
  }
};

enum class Verdict : std::uint8_t { Good, Unusable, Foreign };

// What artifacts say about themselves and the weight sets that they use.
class Survey {
 public:
  explicit Survey(const Folder& root, const std::set<Name>& without = {}) {
    for (const std::string& key : stored_keys(root, kArtifacts)) {
      for (const std::string& generation : generations(root, kArtifacts, key)) {
        const Name name{EntryKind::Artifact, key, generation};
        if (!without.contains(name)) {
          look(root, name);
        }
      }
    }
  }

  static std::vector<std::string> generations(const Folder& root, const char* kind,
                                              const std::string& key) {
    try {
      return stored_generations(root, kind, key);
    } catch (const Error&) {
      return {};  // a link: clean() says so
    }
  }

  bool uses(const Name& weights) const {
    return used_.contains({weights.key, weights.generation}) ||
           std::ranges::any_of(foreign_, [&](const std::string& manifest) {
             return manifest.find('"' + weights.key + '"') != std::string::npos;
           });
  }
  Verdict verdict(const Name& artifact) const { return verdicts_.at(artifact).first; }
  const std::string& problem(const Name& artifact) const { return verdicts_.at(artifact).second; }
  // Artifacts, the newest of each key first.
  std::vector<Name> artifacts() const {
    std::vector<Name> names;
    names.reserve(verdicts_.size());
    for (const auto& item : verdicts_) {
      names.push_back(item.first);
    }
    std::ranges::sort(names, [](const Name& a, const Name& b) {
      return a.key != b.key ? a.key < b.key : a.generation > b.generation;
    });
    return names;
  }

 private:
  void look(const Folder& root, const Name& name) {
    try {
      const auto stored = load_artifact(root, name.key, name.generation);
      const WeightsReference& reference = stored->manifest.weights;
      used_.insert({reference.key, reference.generation});
      verdicts_[name] = {Verdict::Good, ""};
      const ResolvedWeights weights = resolve_weights(root, stored->manifest);
      if (weights.set) {
        used_.insert({weights.set->manifest.key, weights.set->generation});
      }
    } catch (const Error& e) {
      const bool damaged = e.code() == ErrorCode::DataLoss || e.code() == ErrorCode::NotFound;
      verdicts_[name] = {damaged ? Verdict::Unusable : Verdict::Foreign, e.message()};
      if (!damaged) {
        keep_text(root, name);
      }
    }
  }

  // Another version's manifest: the weight sets whose keys it holds are its own.
  void keep_text(const Folder& root, const Name& name) {
    try {
      if (const auto folder = open_generation(root, kArtifacts, name.key, name.generation)) {
        foreign_.push_back(folder->read(kManifest, kMaxManifestBytes));
      }
    } catch (const Error&) {
      return;
    }
  }

  std::map<Name, std::pair<Verdict, std::string>> verdicts_;
  std::set<std::pair<std::string, std::string>> used_;
  std::vector<std::string> foreign_;
};

// Takes things away, or says what it would take away.
class Remover {
 public:
  Remover(Folder root, RemovalMode mode) : root_(std::move(root)), mode_(mode) {}

  const Folder& root() const { return root_; }
  RemovalMode mode() const { return mode_; }
  Removal take_result() { return std::move(result_); }
  std::set<Name> gone;

  void kept(std::string path, std::uint64_t bytes, std::string reason) {
    result_.kept.push_back({std::move(path), bytes, std::move(reason)});
  }
  void removed(std::string path, std::uint64_t bytes, std::string reason) {
    result_.removed.push_back({std::move(path), bytes, std::move(reason)});
  }

  // `still_wanted` is asked once nobody else can start to use the generation.
  void generation(const Name& name, const std::string& reason,
                  const std::function<bool()>& still_wanted = nullptr) {
    const auto folder = open_generation(root_, kind_folder(name.kind), name.key, name.generation);
    if (!folder) {
      return;
    }
    const std::uint64_t bytes = folder->bytes();
    if (const auto foreign = foreign_names(*folder, name.kind); !foreign.empty()) {
      kept(name.path(), bytes, fmt::format("holds '{}', which no store writes", foreign[0]));
      return;
    }
    Fd lock;
    const auto manifest = folder->status(kManifest);
    if (manifest && manifest->kind == FileKind::Regular) {
      lock = folder->file(kManifest);
      if (!try_lock(lock, LockKind::Exclusive)) {
        kept(name.path(), bytes, "in use");
        return;
      }
    }
    if (still_wanted && still_wanted()) {
      return;
    }
    if (mode_ == RemovalMode::Delete) {
      move_away(name);
    }
    gone.insert(name);
    removed(name.path(), bytes, reason);
  }

  void staging() {
    const auto status = root_.status(kStaging);
    if (status && status->kind == FileKind::Folder) {
      const std::optional<Folder> folder = root_.child(kStaging);
      const SweepMode sweep = mode_ == RemovalMode::Delete ? SweepMode::Remove : SweepMode::List;
      for (const StagingLeft& left : sweep_staging(*folder, sweep)) {
        const std::string path = fmt::format("{}/{}", kStaging, left.name);
        left.alive ? kept(path, left.bytes, "being written")
                   : removed(path, left.bytes, "left by a writer that is gone");
      }
    }
  }

 private:
  // Out of sight first, in one step; then in peace.
  void move_away(const Name& name) {
    const Staging trash = Staging::make(root_);
    const std::optional<Folder> parent = root_.child(kind_folder(name.kind));
    const std::optional<Folder> of_key = parent ? parent->child(name.key) : std::nullopt;
    if (of_key) {
      (void)of_key->rename(name.generation, trash.folder(), name.generation);
      of_key->sync();
      (void)parent->remove_if_empty(name.key);
    }
  }

  Folder root_;
  RemovalMode mode_;
  Removal result_;
};

// The folder of a store to delete from; nothing when there is nothing.
std::optional<Folder> open_to_remove(const std::filesystem::path& path) {
  StoreRoot root = open_store(path);
  check(root.folder || !root.foreign, ErrorCode::InvalidArgument, "nothing is removed: {}",
        root.reason);
  return std::move(root.folder);
}

// Weight sets that no artifact uses, of those that `candidate` accepts.
void remove_unused_weights(Remover& remover, const std::function<bool(const Name&)>& candidate) {
  const Folder& root = remover.root();
  const Survey survey(root, remover.gone);
  for (const std::string& key : stored_keys(root, kWeights)) {
    for (const std::string& generation : Survey::generations(root, kWeights, key)) {
      const Name name{EntryKind::Weights, key, generation};
      if (candidate(name) && !survey.uses(name)) {
        remover.generation(name, "no artifact refers to it", [&] {
          // An artifact may have been published since, but not after the set was locked.
          return remover.mode() == RemovalMode::Delete && Survey(root).uses(name);
        });
      }
    }
  }
}

bool is_program_name(const std::string& name) {
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == std::string::npos || !name.ends_with(".program") ||
      name.find_first_not_of("0123456789") != dash) {
    return false;
  }
  const std::string_view stage(name.data() + dash + 1,
                               name.size() - dash - 1 - std::string_view(".program").size());
  return parse_stage(stage).has_value();
}

bool is_shard_name(const std::string& name) {
  const std::string tail = shard_name(0).substr(3);
  return name.starts_with("tp") && name.ends_with(tail) && name.size() > 2 + tail.size() &&
         name.find_first_not_of("0123456789", 2) == name.size() - tail.size();
}

// What clean() does in one of the folders: `own` takes an entry of it away, or says that it stays.
void clean_folder(Remover& remover, const char* folder_name,
                  const std::function<bool(const Folder&, const std::string&)>& own) {
  const Folder& root = remover.root();
  const auto status = root.status(folder_name);
  if (!status) {
    return;
  }
  if (status->kind != FileKind::Folder) {
    remover.kept(folder_name, 0, "not a folder, so not the store's");
    return;
  }
  const std::optional<Folder> folder = root.child(folder_name);
  for (const std::string& name : folder->names()) {
    if (!own(*folder, name)) {
      remover.kept(fmt::format("{}/{}", folder_name, name), 0, "not written by the store");
    }
  }
  if (remover.mode() == RemovalMode::Delete) {
    (void)root.remove_if_empty(folder_name);
  }
}

void clean_generations(Remover& remover, EntryKind kind) {
  clean_folder(remover, kind_folder(kind), [&](const Folder& folder, const std::string& key) {
    const auto status = folder.status(key);
    if (!is_key(key) || !status || status->kind != FileKind::Folder) {
      return false;
    }
    const std::optional<Folder> of_key = folder.child(key);
    for (const std::string& generation : of_key->names()) {
      const auto inner = of_key->status(generation);
      if (is_generation(generation) && inner && inner->kind == FileKind::Folder) {
        remover.generation({kind, key, generation}, "in the store");
      } else {
        remover.kept(fmt::format("{}/{}/{}", kind_folder(kind), key, generation), 0,
                     "not written by the store");
      }
    }
    if (remover.mode() == RemovalMode::Delete) {
      (void)folder.remove_if_empty(key);
    }
    return true;
  });
}

void clean_locks(Remover& remover) {
  clean_folder(remover, kLocks, [&](const Folder& folder, const std::string& name) {
    const auto status = folder.status(name);
    if (!name.ends_with(kLockSuffix) || !status || status->kind != FileKind::Regular) {
      return false;
    }
    const Fd fd = folder.file(name);
    const std::string path = fmt::format("{}/{}", kLocks, name);
    if (!try_lock(fd, LockKind::Exclusive)) {
      remover.kept(path, status->bytes, "held by a process that compiles");
      return true;
    }
    if (remover.mode() == RemovalMode::Delete) {
      folder.remove(name);
    }
    remover.removed(path, status->bytes, "in the store");
    return true;
  });
}

void clean_fingerprints(Remover& remover) {
  constexpr std::size_t kDigits = 64;
  clean_folder(remover, kFingerprints, [&](const Folder& folder, const std::string& name) {
    const auto status = folder.status(name);
    if (!is_hex(name, kDigits) || !status || status->kind != FileKind::Regular) {
      return false;
    }
    if (remover.mode() == RemovalMode::Delete) {
      folder.remove(name);
    }
    remover.removed(fmt::format("{}/{}", kFingerprints, name), status->bytes, "in the store");
    return true;
  });
}

void clean_staging(Remover& remover) {
  clean_folder(remover, kStaging, [](const Folder&, const std::string& name) {
    constexpr std::size_t kDigits = 16;
    return is_hex(name.substr(0, name.find('.')), kDigits);  // already said
  });
}

}  // namespace

std::vector<std::string> foreign_names(const Folder& generation, EntryKind kind) {
  std::vector<std::string> names = generation.names();
  std::erase_if(names, [kind](const std::string& name) {
    return name == kManifest ||
           (kind == EntryKind::Artifact ? is_program_name(name) : is_shard_name(name));
  });
  return names;
}

Removal Store::remove(const std::string& key, RemovalMode mode) const {
  std::optional<Folder> root = open_to_remove(root_);
  const auto generations_of = [&](const char* kind) {
    return root && is_key(key) ? stored_generations(*root, kind, key) : std::vector<std::string>();
  };
  const std::vector<std::string> artifacts = generations_of(kArtifacts);
  const std::vector<std::string> weights = generations_of(kWeights);
  check(!artifacts.empty() || !weights.empty(), ErrorCode::NotFound,
        "there is no artifact or weight set '{}' in '{}'", key, root_.string());
  Remover remover(*std::move(root), mode);
  std::set<std::string> weight_keys;
  for (const std::string& generation : artifacts) {
    try {
      weight_keys.insert(load_artifact(remover.root(), key, generation)->manifest.weights.key);
    } catch (const Error&) {
      weight_keys.insert("");  // nothing is known of its weights; gc finds them
    }
    remover.generation({EntryKind::Artifact, key, generation}, "asked for");
  }
  for (const std::string& generation : weights) {
    remover.generation({EntryKind::Weights, key, generation}, "asked for");
  }
  remove_unused_weights(remover, [&](const Name& name) { return weight_keys.contains(name.key); });
  return remover.take_result();
}

Removal Store::gc(RemovalMode mode) const {
  std::optional<Folder> root = open_to_remove(root_);
  if (!root) {
    return {};
  }
  Remover remover(*std::move(root), mode);
  remover.staging();
  const Survey survey(remover.root());
  std::string good_key;
  for (const Name& name : survey.artifacts()) {
    const Verdict verdict = survey.verdict(name);
    if (verdict == Verdict::Foreign) {
      remover.kept(name.path(), 0, survey.problem(name));
    } else if (verdict == Verdict::Unusable) {
      remover.generation(name, survey.problem(name));
    } else if (std::exchange(good_key, name.key) == name.key) {
      remover.generation(name, "superseded");
    }
  }
  remove_unused_weights(remover, [](const Name&) { return true; });
  return remover.take_result();
}

Removal Store::clean(RemovalMode mode) const {
  std::optional<Folder> root = open_to_remove(root_);
  if (!root) {
    return {};
  }
  Remover remover(*std::move(root), mode);
  remover.staging();  // first, as every removal sweeps it
  clean_generations(remover, EntryKind::Artifact);
  clean_generations(remover, EntryKind::Weights);
  clean_fingerprints(remover);
  clean_staging(remover);
  clean_locks(remover);
  const std::set<std::string> own = {kArtifacts, kWeights,      kStaging,
                                     kLocks,     kFingerprints, kMarker};
  for (const std::string& name : remover.root().names()) {
    if (!own.contains(name)) {
      remover.kept(name, 0, "not written by the store");
    }
  }
  // As long as something of the store is left, its folder stays known as a store.
  bool last = true;
  for (const std::string& name : remover.root().names()) {
    last = last && (name == kMarker || !own.contains(name));
  }
  if (mode == RemovalMode::DryRun || last) {
    remover.removed(kMarker, 0, "in the store");
  }
  if (mode == RemovalMode::Delete && last) {
    remover.root().remove(kMarker);
    (void)::rmdir(root_.c_str());  // if nothing else is in it
    const std::vector<std::string> left = remover.root().names();
    if (std::ranges::any_of(left, [&](const std::string& name) { return own.contains(name); })) {
      make_marker(remover.root());  // a writer came in between
    }
  }
  return remover.take_result();
}

}  // namespace difflet::artifact
