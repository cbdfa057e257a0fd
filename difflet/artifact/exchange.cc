// Store::export_archive() and Store::import_archive().
#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "difflet/artifact/archive.h"
#include "difflet/artifact/store_impl.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::artifact {
namespace {

// Writes members into the staging folder under the names that the manifests gave them.
class StagingSink final : public ArchiveSink {
 public:
  explicit StagingSink(const Folder& staging)
      : artifact_(staging.make(kStagedArtifact)), weights_(staging.make(kStagedWeights)) {}

  void begin(ArchivePart part, const FileRecord& file) override {
    const Folder& folder = part == ArchivePart::Artifact ? artifact_ : weights_;
    path_ = folder.path() / file.name;
    fd_ = folder.create(file.name);
    check(static_cast<bool>(fd_), ErrorCode::DataLoss, "'{}' is there twice", file.name);
    written_ = 0;
  }
  void data(std::span<const std::byte> bytes) override {
    write_at(fd_, path_, written_, bytes);
    written_ += bytes.size();
  }
  void end() override {
    sync_file(fd_, path_);
    fd_.reset();
  }

  // Every shard must hold the pieces of its manifest, where a mapped file needs them.
  void check_shards(const WeightsManifest& manifest) const {
    for (const FileRecord& file : manifest.files) {
      const Fd fd = weights_.file(file.name);
      check_shard({.fd = fd.get(),
                   .path = (weights_.path() / file.name).string(),
                   .bytes = static_cast<std::size_t>(file.bytes)},
                  manifest.pieces);
    }
  }

 private:
  Folder artifact_, weights_;
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t written_ = 0;
};

// The newest good artifact of this key, with its weights.
std::pair<std::shared_ptr<const StoredArtifact>, ResolvedWeights> load_newest(
    const Folder& root, const std::string& key) {
  std::string problem = "there is none";
  for (const std::string& generation :
       is_key(key) ? stored_generations(root, kArtifacts, key) : std::vector<std::string>()) {
    try {
      auto stored = load_artifact(root, key, generation);
      ResolvedWeights weights = resolve_weights(root, stored->manifest);
      if (weights.set) {
        return {std::move(stored), std::move(weights)};
      }
      problem = "its weights are absent: " + weights.absent;
    } catch (const Error& e) {
      problem = e.message();
    }
  }
  fail(ErrorCode::NotFound, "no artifact '{}' in '{}' can be exported: {}", key,
       root.path().string(), problem);
}

}  // namespace

void Store::export_archive(const std::string& key, const std::filesystem::path& file) const {
  const StoreRoot root = open_store(root_);
  check(root.folder.has_value(), ErrorCode::NotFound, "{}", root.reason);
  const auto [stored, weights] = load_newest(*root.folder, key);
  ArchiveContents contents{stored->manifest, weights.set->manifest};
  contents.manifest.weights = {contents.weights.key, weights.set->generation};
  const std::filesystem::path target = write_target(file);
  const std::filesystem::path parent = target.has_parent_path() ? target.parent_path() : ".";
  const std::optional<Folder> folder = Folder::open(parent);
  check(folder.has_value(), ErrorCode::NotFound, "cannot write '{}': there is no folder '{}'",
        file.string(), parent.string());
  const auto existing = folder->status(target.filename().string());
  check(!existing || existing->kind == FileKind::Regular, ErrorCode::InvalidArgument,
        "'{}' is not a regular file", file.string());
  const std::string temporary = ".difflet-" + random_name() + ".tmp";
  try {
    const Fd fd = folder->create(temporary);
    check(static_cast<bool>(fd), ErrorCode::Unavailable, "cannot write '{}'", file.string());
    write_archive(fd, file.string(), contents, stored->folder, weights.set->folder);
    sync_file(fd, file);
    (void)folder->rename(temporary, *folder, target.filename().string());
    folder->sync();
  } catch (...) {
    folder->remove(temporary);
    throw;
  }
}

Artifact Store::import_archive(const std::filesystem::path& file) const {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    fail_errno("open", file, errno);
  }
  check(status_of(fd).kind == FileKind::Regular, ErrorCode::InvalidArgument,
        "'{}' is not a regular file", file.string());
  const Folder root = make_store(root_);
  const Staging staging = Staging::make(root);
  StagingSink sink(staging.folder());
  ArchiveContents contents = read_archive(fd, file.string(), sink);
  sink.check_shards(contents.weights);
  const Folder locks = root.make(kLocks);
  const std::string what = "importing " + contents.manifest.identity.model;
  const KeyLock lock = KeyLock::acquire(locks, contents.manifest.key, what, nullptr);
  const KeyLock base_lock =
      KeyLock::acquire(locks, "base-" + key_of(base_of(contents.manifest.identity)), what, nullptr);
  Lookup lookup = find(contents.manifest.identity);
  if (lookup.artifact && lookup.artifact->key() == contents.manifest.key &&
      lookup.artifact->weight_state() == WeightState::Present) {
    return *std::move(lookup.artifact);
  }
  const auto weights =
      search_weights(root, contents.manifest.identity, pieces_of(contents.manifest));
  if (weights) {
    contents.manifest.weights = {weights->manifest.key, weights->generation};
  }
  const std::string generation =
      commit(root, staging.folder(), contents.manifest, weights ? nullptr : &contents.weights);
  auto stored = load_artifact(root, contents.manifest.key, generation);
  ResolvedWeights resolved = resolve_weights(root, stored->manifest);
  return make_artifact(std::move(stored), std::move(resolved));
}

}  // namespace difflet::artifact
