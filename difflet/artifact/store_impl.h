// What stands behind the types of store.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "difflet/artifact/generation.h"
#include "difflet/artifact/lock.h"
#include "difflet/artifact/store.h"

namespace difflet::artifact {

struct Artifact::Impl {
  std::shared_ptr<const StoredArtifact> stored;
  ResolvedWeights weights;
};

struct WeightSet::Impl {
  std::shared_ptr<const StoredWeights> stored;
};

inline constexpr const char* kStagedArtifact = "artifact";
inline constexpr const char* kStagedWeights = "weights";

// Names that a generation's folder may hold; what else is in it was not written by a store.
std::vector<std::string> foreign_names(const Folder& generation, EntryKind kind);
inline const char* kind_folder(EntryKind kind) {
  return kind == EntryKind::Artifact ? kArtifacts : kWeights;
}

// Moves what lies ready in staging/<name>/ to its place: the weight set, if `weights` says that there
// is one, then the artifact, whose manifest is written here with its references filled in. All files
// but the manifests are there and durable. Gives the artifact's generation.
std::string commit(const Folder& root, const Folder& staging, Manifest& manifest,
                   WeightsManifest* weights);

}  // namespace difflet::artifact
