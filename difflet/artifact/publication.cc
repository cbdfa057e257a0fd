#include <algorithm>
#include <utility>

#include "difflet/artifact/store_impl.h"
#include "difflet/base/error.h"

namespace difflet::artifact {
namespace {

// Renames staging/<name>/<from> to <kind>/<key>/<a new generation>; `generation` is the first to try.
std::string place(const Folder& root, const Folder& staging, const char* from, const char* kind,
                  const std::string& key, std::string generation) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const Folder parent = root.make(kind);
    const Folder of_key = parent.make(key);
    try {
      if (staging.rename(from, of_key, generation)) {
        of_key.sync();
        parent.sync();
        root.sync();
        return generation;
      }
    } catch (const Error& e) {
      // A remover took the empty folder away in between.
      if (e.code() != ErrorCode::NotFound || parent.status(key)) {
        (void)parent.remove_if_empty(key);
        throw;
      }
    }
    generation = next_generation(root, kind, key);
  }
  fail(ErrorCode::Unavailable, "cannot find a free generation of {} in '{}'", key,
       root.path().string());
}

void take_away(const Folder& root, const char* kind, const std::string& key,
               const std::string& generation) noexcept {
  try {
    const std::optional<Folder> parent = root.child(kind);
    const std::optional<Folder> of_key = parent ? parent->child(key) : std::nullopt;
    if (of_key) {
      of_key->remove(generation);
      (void)parent->remove_if_empty(key);
    }
  } catch (const std::exception&) {
    return;  // unreferenced: gc removes it
  }
}

}  // namespace

std::string commit(const Folder& root, const Folder& staging, Manifest& manifest,
                   WeightsManifest* weights) {
  const Folder staged = staging.make(kStagedArtifact);
  Fd weights_pin;  // a weight set that nobody refers to yet must not be collected
  if (weights != nullptr) {
    manifest.weights = {weights->key, next_generation(root, kWeights, weights->key)};
    const Folder staged_weights = staging.make(kStagedWeights);
    staged_weights.write(kManifest, to_text(*weights));
    staged_weights.sync();
    weights_pin = staged_weights.file(kManifest);
    (void)try_lock(weights_pin, LockKind::Shared);
  }
  staged.write(kManifest, to_text(manifest));
  staged.sync();
  if (weights == nullptr) {
    return place(root, staging, kStagedArtifact, kArtifacts, manifest.key,
                 next_generation(root, kArtifacts, manifest.key));
  }
  const std::string generation =
      place(root, staging, kStagedWeights, kWeights, weights->key, manifest.weights.generation);
  try {
    if (generation != manifest.weights.generation) {  // somebody without locks took the number
      manifest.weights.generation = generation;
      staged.remove(kManifest);
      staged.write(kManifest, to_text(manifest));
    }
    return place(root, staging, kStagedArtifact, kArtifacts, manifest.key,
                 next_generation(root, kArtifacts, manifest.key));
  } catch (...) {
    take_away(root, kWeights, weights->key, generation);
    throw;
  }
}

struct Publication::Impl {
  Impl(Folder in, KeyLock held) : root(std::move(in)), lock(std::move(held)) {}

  void start_files();
  void choose_weights();

  Folder root;
  std::optional<KeyLock> lock;
  std::optional<KeyLock> base_lock;
  std::filesystem::path store;
  PublishRequest request;
  Manifest manifest;
  std::optional<Artifact> found;
  std::optional<Staging> staging;
  std::optional<Folder> programs;
  bool weights_chosen = false;
  std::vector<runtime::WeightPiece> pieces;  // union, once weights are chosen
  std::optional<WeightSet> weights;
  std::optional<Folder> shard_folder;
  std::vector<FileRecord> shards;
  std::unique_ptr<ShardWriter> shard;
};

void Publication::Impl::start_files() {
  require(!found, "nothing is published twice");
  if (!staging) {
    staging = Staging::make(root);
    programs = staging->folder().make(kStagedArtifact);
  }
}

void Publication::Impl::choose_weights() {
  if (std::exchange(weights_chosen, true)) {
    return;
  }
  pieces = pieces_of(manifest);
  // Two sizes of one model that are compiled at once need one set: the second waits for it.
  base_lock = KeyLock::acquire(root.make(kLocks), "base-" + key_of(base_of(manifest.identity)),
                               request.what, request.waiting);
  if (request.existing == PublishRequest::Existing::Use) {
    weights = Store(store).find_weights(manifest.identity, pieces);
  }
}

// Opens the store, made if need be, and takes the lock of the key.
std::unique_ptr<Publication::Impl> Publication::begin(const std::filesystem::path& path,
                                                      const std::string& key,
                                                      const PublishRequest& request) {
  constexpr int kTries = 20;  // a cleaner may take folders away while they are empty
  for (int i = 1;; ++i) {
    try {
      const Folder root = make_store(path);
      return std::make_unique<Impl>(
          root, KeyLock::acquire(root.make(kLocks), key, request.what, request.waiting));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::NotFound || i == kTries) {
        throw;
      }
    }
  }
}

Publication::Publication(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Publication::Publication(Publication&&) noexcept = default;
Publication& Publication::operator=(Publication&&) noexcept = default;
Publication::~Publication() = default;

const std::optional<Artifact>& Publication::found() const noexcept { return impl_->found; }

void Publication::add_program(std::size_t shape, Stage stage,
                              const runtime::CompiledProgram& program) {
  impl_->start_files();
  require(!impl_->weights_chosen, "all programs come before the weights");
  require(shape < impl_->manifest.identity.shapes.size(), "a program's shape is in the identity");
  require(program.mesh == impl_->manifest.identity.mesh,
          "a program's mesh is that of the identity");
  const std::string name = program_name(shape, stage);
  impl_->programs->write(name, program.code);
  impl_->manifest.programs.push_back(
      {.shape = shape,
       .stage = stage,
       .file = {.name = name, .bytes = program.code.size(), .sha256 = sha256_hex(program.code)},
       .name = program.name,
       .mesh = program.mesh,
       .inputs = program.inputs,
       .outputs = program.outputs,
       .pieces = program.pieces});
}

const std::optional<WeightSet>& Publication::weights() {
  impl_->choose_weights();
  return impl_->weights;
}

ShardWriter& Publication::begin_shard(std::size_t rank) {
  impl_->choose_weights();
  impl_->start_files();
  require(!impl_->weights && !impl_->shard, "one shard is written at a time, where none is there");
  require(rank == impl_->shards.size(), "shards come in the order of ranks");
  if (!impl_->shard_folder) {
    impl_->shard_folder = impl_->staging->folder().make(kStagedWeights);
  }
  impl_->shard =
      std::make_unique<ShardWriter>(impl_->shard_folder->path() / shard_name(rank), impl_->pieces);
  return *impl_->shard;
}

void Publication::end_shard() {
  require(impl_->shard != nullptr, "end_shard() follows begin_shard()");
  impl_->shards.push_back(impl_->shard->finish());
  impl_->shard.reset();
}

Artifact Publication::keep() {
  impl_->start_files();
  impl_->choose_weights();
  Manifest& manifest = impl_->manifest;
  std::ranges::sort(manifest.programs, {},
                    [](const ProgramRecord& p) { return std::pair(p.shape, p.stage); });
  require(!manifest.programs.empty(), "an artifact has a program");
  manifest.metadata = impl_->request.metadata;
  manifest.metadata["created"] = utc_time();
  WeightsManifest weights;
  if (impl_->weights) {
    manifest.weights = impl_->weights->reference();
  } else {
    require(!impl_->shard && std::cmp_equal(impl_->shards.size(), manifest.identity.mesh.ranks()),
            "every rank has its shard");
    weights.base = base_of(manifest.identity);
    weights.pieces = impl_->pieces;
    std::ranges::sort(weights.pieces, {}, &runtime::WeightPiece::name);
    weights.key = weights_key(weights.base, weights.pieces);
    weights.files = std::move(impl_->shards);
    weights.metadata = manifest.metadata;
  }
  const std::string generation =
      commit(impl_->root, impl_->staging->folder(), manifest, impl_->weights ? nullptr : &weights);
  make_marker(impl_->root);
  impl_->staging.reset();
  auto stored = load_artifact(impl_->root, manifest.key, generation);
  impl_->base_lock.reset();
  impl_->lock.reset();
  ResolvedWeights resolved = resolve_weights(impl_->root, stored->manifest);
  return Store::make_artifact(std::move(stored), std::move(resolved));
}

Publication Store::publish(const Identity& identity, PublishRequest request) const {
  const std::string key = key_of(identity);
  auto impl = Publication::begin(root_, key, request);
  impl->store = root_;
  impl->request = std::move(request);
  impl->manifest.key = key;
  impl->manifest.identity = identity;
  impl->manifest.schedule_capacity = impl->request.schedule_capacity;
  if (impl->request.existing == PublishRequest::Existing::Use) {
    Lookup lookup = find(identity);
    if (lookup.artifact && lookup.artifact->weight_state() == WeightState::Present) {
      impl->found = std::move(lookup.artifact);
    }
  }
  if (!impl->found) {
    impl->start_files();  // a store that cannot be written is found out before the work is done
  }
  return Publication(std::move(impl));
}

}  // namespace difflet::artifact
