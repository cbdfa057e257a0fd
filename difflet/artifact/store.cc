#include "difflet/artifact/store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "difflet/artifact/difference.h"
#include "difflet/artifact/store_impl.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

constexpr std::size_t kMaxProgramBytes = std::size_t{4} << 30U;

bool contains_all(const Identity& stored, const Identity& wanted) {
  return std::ranges::all_of(wanted.shapes, [&](const ShapeEntry& shape) {
    return std::ranges::find(stored.shapes, shape) != stored.shapes.end();
  });
}

void merge_shapes(std::vector<ShapeEntry>& into, const std::vector<ShapeEntry>& shapes) {
  for (const ShapeEntry& shape : shapes) {
    if (std::ranges::find(into, shape) == into.end()) {
      into.push_back(shape);
    }
  }
}

// One lookup: what was found, and what is worth saying when nothing was.
class Finder {
 public:
  Finder(const Folder& root, const Identity& wanted)
      : root_(root), wanted_(wanted), key_(key_of(wanted)) {}

  struct Found {
    std::shared_ptr<const StoredArtifact> stored;
    ResolvedWeights weights;
  };

  std::optional<Found> run(Lookup& lookup) {
    try {
      if (std::optional<Found> found = newest_good(key_, nullptr)) {
        return found;
      }
      for (const std::string& key : stored_keys(root_, kArtifacts)) {
        if (std::optional<Found> found = key == key_ ? std::nullopt : newest_good(key, &lookup)) {
          return found;
        }
      }
    } catch (const Error& e) {
      problem_ = e.message();
    }
    lookup.reason = reason();
    return std::nullopt;
  }

 private:
  // The newest usable generation of a key that is for what is wanted.
  std::optional<Found> newest_good(const std::string& key, Lookup* lookup) {
    constexpr int kTries = 5;
    for (int i = 0; i < kTries; ++i) {
      bool vanished = false;
      for (const std::string& generation : generations_of(key)) {
        try {
          if (std::optional<Found> found = try_one(key, generation, lookup)) {
            return found;
          }
        } catch (const Error& e) {
          vanished = vanished || e.code() == ErrorCode::NotFound;
          if (key == key_ && problem_.empty()) {
            problem_ = e.message();
          }
        }
      }
      if (!vanished) {  // else a newer one may have taken its place
        break;
      }
    }
    return std::nullopt;
  }

  std::vector<std::string> generations_of(const std::string& key) {
    try {
      return stored_generations(root_, kArtifacts, key);
    } catch (const Error& e) {
      if (key == key_) {
        problem_ = e.message();
      }
      return {};
    }
  }

  std::optional<Found> try_one(const std::string& key, const std::string& generation,
                               Lookup* lookup) {
    Found found;
    found.stored = load_artifact(root_, key, generation);
    const Identity& stored = found.stored->manifest.identity;
    if (key != key_) {
      if (!(base_of(stored) == base_of(wanted_))) {
        note_difference(key, stored);
        return std::nullopt;
      }
      if (lookup != nullptr) {
        merge_shapes(lookup->others, stored.shapes);
      }
      if (!contains_all(stored, wanted_)) {
        return std::nullopt;
      }
    }
    found.weights = resolve_weights(root_, found.stored->manifest);
    return found;
  }

  void note_difference(const std::string& key, const Identity& stored) {
    if (stored.model != wanted_.model) {
      return;
    }
    const std::size_t count = differences(base_of(stored), base_of(wanted_)).size();
    if (count < fewest_) {
      fewest_ = count;
      nearest_ = describe_difference(key, stored, wanted_);
    }
  }

  std::string reason() const {
    if (!problem_.empty()) {
      return fmt::format("artifact {} cannot be used: {}", key_, problem_);
    }
    const std::string none =
        fmt::format("there is no artifact {} in '{}'", key_, root_.path().string());
    return nearest_.empty() ? none : none + "; " + nearest_;
  }

  const Folder& root_;
  const Identity& wanted_;
  std::string key_;
  std::string problem_;  // of the wanted key's newest generation
  std::string nearest_;
  std::size_t fewest_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace

const std::string& Artifact::key() const noexcept { return impl_->stored->manifest.key; }
const std::string& Artifact::generation() const noexcept { return impl_->stored->generation; }
const Manifest& Artifact::manifest() const noexcept { return impl_->stored->manifest; }
std::filesystem::path Artifact::path() const { return impl_->stored->folder.path(); }

std::optional<std::size_t> Artifact::shape_index(const ShapeEntry& shape) const {
  const std::vector<ShapeEntry>& shapes = manifest().identity.shapes;
  const auto found = std::ranges::find(shapes, shape);
  return found == shapes.end() ? std::nullopt
                               : std::optional(static_cast<std::size_t>(found - shapes.begin()));
}

runtime::CompiledProgram Artifact::program(std::size_t shape, Stage stage) const {
  for (const ProgramRecord& record : manifest().programs) {
    if (record.shape == shape && record.stage == stage) {
      runtime::CompiledProgram program{.name = record.name,
                                       .mesh = record.mesh,
                                       .inputs = record.inputs,
                                       .outputs = record.outputs,
                                       .pieces = record.pieces,
                                       .code = {}};
      program.code = impl_->stored->folder.read(record.file.name, kMaxProgramBytes);
      check(program.code.size() == record.file.bytes, ErrorCode::DataLoss,
            "'{}' has {} bytes, its manifest says {}", (path() / record.file.name).string(),
            program.code.size(), record.file.bytes);
      check(sha256_hex(program.code) == record.file.sha256, ErrorCode::DataLoss,
            "'{}' is damaged: its SHA-256 is not that of the manifest",
            (path() / record.file.name).string());
      return program;
    }
  }
  fail(ErrorCode::NotFound, "artifact {} has no {} program of shape {}", key(), stage_name(stage),
       shape);
}

WeightState Artifact::weight_state() const noexcept {
  return impl_->weights.set ? WeightState::Present : WeightState::Absent;
}

const std::string& Artifact::weight_reason() const noexcept { return impl_->weights.absent; }

std::uint64_t Artifact::weight_bytes() const noexcept {
  std::uint64_t sum = 0;
  if (impl_->weights.set) {
    for (const FileRecord& file : impl_->weights.set->manifest.files) {
      sum += file.bytes;
    }
  }
  return sum;
}

std::size_t Artifact::ranks() const noexcept {
  return impl_->weights.set ? impl_->weights.set->manifest.files.size() : 0;
}

std::vector<std::shared_ptr<const runtime::PackedWeights>> Artifact::open_weights(
    std::span<const std::size_t> ranks, ShardMode mode, ThreadPool& threads,
    ShardReport* report) const {
  const auto& set = impl_->weights.set;
  check(set != nullptr, ErrorCode::NotFound, "artifact {} has no weights: {}", key(),
        weight_reason());
  std::vector<Fd> fds;
  std::vector<ShardFile> files;
  for (const std::size_t rank : ranks) {
    check(rank < set->manifest.files.size(), ErrorCode::InvalidArgument,
          "weight set {} has {} ranks, there is no rank {}", set->manifest.key,
          set->manifest.files.size(), rank);
    const FileRecord& file = set->manifest.files[rank];
    fds.push_back(set->folder.file(file.name));
    files.push_back({.fd = fds.back().get(),
                     .path = (set->folder.path() / file.name).string(),
                     .bytes = static_cast<std::size_t>(file.bytes),
                     .owner = set});
  }
  return open_shards(files, mode, threads, report);
}

void Artifact::check_weights() const {
  const auto& set = impl_->weights.set;
  check(set != nullptr, ErrorCode::NotFound, "artifact {} has no weights: {}", key(),
        weight_reason());
  for (const FileRecord& file : set->manifest.files) {
    const Fd fd = set->folder.file(file.name);
    check_shard({.fd = fd.get(),
                 .path = (set->folder.path() / file.name).string(),
                 .bytes = static_cast<std::size_t>(file.bytes)},
                set->manifest.pieces);
  }
}

WeightsReference WeightSet::reference() const {
  return {impl_->stored->manifest.key, impl_->stored->generation};
}
const WeightsManifest& WeightSet::manifest() const noexcept { return impl_->stored->manifest; }

Store::Store(std::filesystem::path root) : root_(std::move(root)) {}

Lookup Store::find(const Identity& wanted) const {
  Lookup lookup;
  const StoreRoot root = open_store(root_);
  if (!root.folder) {
    lookup.reason = root.reason;
    return lookup;
  }
  if (auto found = Finder(*root.folder, wanted).run(lookup)) {
    lookup.artifact = make_artifact(std::move(found->stored), std::move(found->weights));
  }
  return lookup;
}

Artifact Store::make_artifact(std::shared_ptr<const StoredArtifact> stored,
                              ResolvedWeights weights) {
  Artifact artifact;
  artifact.impl_ =
      std::make_shared<const Artifact::Impl>(Artifact::Impl{std::move(stored), std::move(weights)});
  return artifact;
}

std::optional<WeightSet> Store::find_weights(const Identity& base,
                                             std::span<const runtime::WeightPiece> pieces) const {
  const StoreRoot root = open_store(root_);
  auto stored = root.folder ? search_weights(*root.folder, base, pieces) : nullptr;
  if (!stored) {
    return std::nullopt;
  }
  WeightSet set;
  set.impl_ = std::make_shared<const WeightSet::Impl>(WeightSet::Impl{std::move(stored)});
  return set;
}

}  // namespace difflet::artifact
