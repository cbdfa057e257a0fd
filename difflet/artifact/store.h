// A folder of compiled programs and packed weights that many processes use at once. Whatever is wrong
// with what lies in it is a miss with a reason; only writing throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "difflet/artifact/identity.h"
#include "difflet/artifact/manifest.h"
#include "difflet/artifact/shard.h"
#include "difflet/base/thread_pool.h"
#include "difflet/runtime/program.h"

namespace difflet::artifact {

struct StoredArtifact;
struct ResolvedWeights;

enum class WeightState : std::uint8_t {
  Present,
  Absent,  // the set or a file of it is not there: the caller packs from the checkpoint
};

// A stored generation, found and checked (all but the bytes of its files). As long as a copy of it, or
// weights opened from it, are alive, nothing of it is deleted.
class Artifact {
 public:
  const std::string& key() const noexcept;
  const std::string& generation() const noexcept;
  const Manifest& manifest() const noexcept;
  std::filesystem::path path() const;  // of its folder
  // The place of a size in the manifest's identity; nothing when it is not among them.
  std::optional<std::size_t> shape_index(const ShapeEntry& shape) const;

  // Reads one program. Throws NotFound when the artifact has none of that stage, DataLoss when its
  // file is gone or damaged.
  runtime::CompiledProgram program(std::size_t shape, Stage stage) const;

  WeightState weight_state() const noexcept;
  const std::string& weight_reason() const noexcept;  // why Absent, for people
  std::uint64_t weight_bytes() const noexcept;        // of all ranks' files; 0 when absent
  std::size_t ranks() const noexcept;                 // number of weight files; 0 when absent
  // The weights of these ranks, in that order, read together. Throws DataLoss for a damaged file,
  // NotFound when absent.
  std::vector<std::shared_ptr<const runtime::PackedWeights>> open_weights(
      std::span<const std::size_t> ranks, ShardMode mode, ThreadPool& threads,
      ShardReport* report = nullptr) const;
  // Throws DataLoss when a weight file does not hold its pieces; reads none of their bytes.
  void check_weights() const;

 private:
  friend class Store;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

struct Lookup {
  std::optional<Artifact> artifact;
  std::string reason;              // of the miss, one sentence
  std::vector<ShapeEntry> others;  // sizes of the same base that are there
};

// A weight set that a new artifact can refer to; pinned as an Artifact is.
class WeightSet {
 public:
  WeightsReference reference() const;
  const WeightsManifest& manifest() const noexcept;

 private:
  friend class Store;
  friend class Publication;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

struct PublishRequest {
  std::string what;  // said to those who wait: "compiling FluxTransformer2DModel"
  // Called when the key's lock is taken, and about every second after that, with its holder: "process 12
  // on host a, compiling ..., since ...". May throw to give up.
  std::function<void(const std::string& holder)> waiting = nullptr;
  std::int64_t schedule_capacity = 0;
  std::map<std::string, std::string> metadata = {};  // for people; "created" is added
  enum class Existing : std::uint8_t { Use, Replace } existing = Existing::Use;
};

// One generation in the making; holds the lock of its key. Nothing is visible before keep(), and nothing
// is left without it. Order: programs, weights, keep().
class Publication {
 public:
  Publication(Publication&&) noexcept;
  Publication& operator=(Publication&&) noexcept;
  ~Publication();

  // What another process published while this one waited for the lock (or before); then there is
  // nothing to do.
  const std::optional<Artifact>& found() const noexcept;

  void add_program(std::size_t shape, Stage stage, const runtime::CompiledProgram& program);
  // A set in the store that holds all pieces of the programs added, and is used; else nothing, and the
  // caller writes one shard a rank of the mesh, from rank 0 on, each finished before the next begins.
  const std::optional<WeightSet>& weights();
  ShardWriter& begin_shard(std::size_t rank);
  void end_shard();
  // Throws Internal when a program or shard is missing, ResourceExhausted or Unavailable as writing
  // does.
  Artifact keep();

 private:
  friend class Store;
  struct Impl;
  explicit Publication(std::unique_ptr<Impl> impl);
  static std::unique_ptr<Impl> begin(const std::filesystem::path& store, const std::string& key,
                                     const PublishRequest& request);
  std::unique_ptr<Impl> impl_;
};

enum class EntryKind : std::uint8_t { Artifact, Weights };

// One generation in the store.
struct StoreEntry {
  EntryKind kind = EntryKind::Artifact;
  std::string key, generation;
  std::uint64_t bytes = 0;                 // of its files
  std::string problem;                     // why it cannot be used; empty: it can
  bool in_use = false;                     // a process has it open
  bool latest = false;                     // the one of its key that a lookup takes
  std::optional<Manifest> manifest;        // of a good artifact
  std::optional<WeightsManifest> weights;  // of a good weight set
};

struct Removal {
  struct Item {
    std::string path;  // relative to the root
    std::uint64_t bytes = 0;
    std::string reason;  // why it goes or stays
  };
  std::vector<Item> removed;  // or what would be
  std::vector<Item> kept;     // wanted gone, but in use or not the store's
};
enum class RemovalMode : std::uint8_t { DryRun, Delete };

class Store {
 public:
  // Touches nothing; the folder need not exist.
  explicit Store(std::filesystem::path root);
  const std::filesystem::path& root() const noexcept { return root_; }

  // The artifact of this identity, else one of the same base whose shapes contain the wanted ones.
  Lookup find(const Identity& wanted) const;
  // A set of the same base that holds all these pieces, complete and of the right sizes.
  std::optional<WeightSet> find_weights(const Identity& base,
                                        std::span<const runtime::WeightPiece> pieces) const;

  // Waits for the key's lock, looks up again, removes what dead writers left in staging. Throws
  // Unavailable or InvalidArgument naming the path when the store cannot be written.
  Publication publish(const Identity& identity, PublishRequest request) const;

  // Artifacts, then weights, each by key and generation.
  std::vector<StoreEntry> list() const;
  // As list(), each with every byte hashed; `problem` says what differs.
  std::vector<StoreEntry> verify(ThreadPool& threads) const;

  // All of these throw InvalidArgument for a folder that is not a store (no store.json), unless it is
  // empty or absent; what is in use stays. `key` is of an artifact (weights that only it refers to go
  // too) or of a weight set; NotFound when there is neither.
  Removal remove(const std::string& key, RemovalMode mode) const;
  // Superseded and unusable generations, weight sets that no artifact refers to, dead staging.
  Removal gc(RemovalMode mode) const;
  // Everything that the store wrote, and the root if nothing else is in it.
  Removal clean(RemovalMode mode) const;

  // One artifact with its weights as a tar file. Throws NotFound (no such key, or weights absent), and
  // as write_file_atomic().
  void export_archive(const std::string& key, const std::filesystem::path& file) const;
  // Checks names, sizes, hashes and manifests, then publishes; gives what was there already, if it is
  // good. Throws DataLoss naming the member that is wrong, Unsupported for another schema.
  Artifact import_archive(const std::filesystem::path& file) const;

 private:
  friend class Publication;
  static Artifact make_artifact(std::shared_ptr<const StoredArtifact> stored,
                                ResolvedWeights weights);

  std::filesystem::path root_;
};

}  // namespace difflet::artifact
