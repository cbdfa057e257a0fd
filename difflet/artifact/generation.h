// Stored generations as they are found on disk: opened without following links, pinned against
// removal, their manifests read and the sizes of their files checked.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/artifact/folder.h"
#include "difflet/artifact/manifest.h"

namespace difflet::artifact {

inline constexpr const char* kArtifacts = "artifacts";
inline constexpr const char* kWeights = "weights";
inline constexpr const char* kStaging = "staging";
inline constexpr const char* kLocks = "locks";
inline constexpr const char* kFingerprints = "fingerprints";
inline constexpr const char* kMarker = "store.json";
inline constexpr const char* kManifest = "manifest.json";

// A store's root, if it is one that this version reads; else why not.
struct StoreRoot {
  std::optional<Folder> folder;
  std::string reason;
  bool foreign = false;  // there is something, but not a store of this schema
};
StoreRoot open_store(const std::filesystem::path& root);
// Makes the root and its marker if need be. Throws InvalidArgument for a store of another schema, and
// as writing does.
Folder make_store(const std::filesystem::path& root);
// Writes the marker where it is not: a cleaner takes it away last, and may not see who has just begun.
void make_marker(const Folder& root);

// Keys that have a folder under `kind` (kArtifacts, kWeights), sorted.
std::vector<std::string> stored_keys(const Folder& root, const char* kind);
// Generations of one key, newest first. Throws DataLoss for a link in the place of a folder.
std::vector<std::string> stored_generations(const Folder& root, const char* kind,
                                            const std::string& key);
// "g000001", one above the newest.
std::string next_generation(const Folder& root, const char* kind, const std::string& key);

// The open folder of a generation; nothing when it is not there.
std::optional<Folder> open_generation(const Folder& root, const char* kind, const std::string& key,
                                      const std::string& generation);

struct StoredArtifact {
  Folder folder;
  Fd pin;  // the manifest, locked: while this is open nothing is removed
  std::string generation;
  Manifest manifest;
};
struct StoredWeights {
  Folder folder;
  Fd pin;
  std::string generation;
  WeightsManifest manifest;
  std::string absent;  // the first shard file that is not there; empty: complete
};

// Throws NotFound for one that is not there (or was removed meanwhile), DataLoss or Unsupported for one
// that cannot be used, Unavailable.
std::shared_ptr<const StoredArtifact> load_artifact(const Folder& root, const std::string& key,
                                                    const std::string& generation);
std::shared_ptr<const StoredWeights> load_weights(const Folder& root, const std::string& key,
                                                  const std::string& generation);

// A complete set of this base with all these pieces; null when there is none.
std::shared_ptr<const StoredWeights> search_weights(const Folder& root, const Identity& base,
                                                    std::span<const runtime::WeightPiece> pieces);

struct ResolvedWeights {
  std::shared_ptr<const StoredWeights> set;  // null: absent
  std::string absent;                        // why
};
// The set that the artifact refers to, or another that holds its pieces. Throws DataLoss when the one
// is damaged and there is no other.
ResolvedWeights resolve_weights(const Folder& root, const Manifest& manifest);

// The union of the programs' pieces, in the order in which they are first named.
std::vector<runtime::WeightPiece> pieces_of(const Manifest& manifest);

}  // namespace difflet::artifact
