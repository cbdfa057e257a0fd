// Where the weights of a component come from, said without reading them again and again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "difflet/artifact/identity.h"
#include "difflet/base/thread_pool.h"
#include "difflet/io/checkpoint.h"

namespace difflet::artifact {

// The source of a folder inside a hub's cache, .../models--ORG--NAME/snapshots/<40 hex>[/subfolder],
// from its path alone (links followed); nothing for any other folder.
std::optional<Source> snapshot_source(const std::filesystem::path& folder,
                                      const std::string& variant);

// SHA-256 over names, dtypes, shapes and data of all tensors and over the canonical text of `config`
// (null: none): 64 hex digits, whatever the files are called and however tensors lie in them. Reads
// everything, in parallel, and lets its pages go again.
std::string content_digest(const io::Checkpoint& checkpoint, const Json& config,
                           ThreadPool& threads);

// The source of a folder as far as it is known without reading its weights: of a snapshot, or the digest
// that a store keeps.
std::optional<Source> known_source(const std::filesystem::path& folder,
                                   const io::Checkpoint& checkpoint, const std::string& variant,
                                   const std::filesystem::path& store_root);

struct FingerprintReport {
  bool cached = false;  // true: no weight was read
  double seconds = 0;
};

// snapshot_source(), else the content digest of the folder's weights and config.json. Digests are kept
// in <store_root>/fingerprints under the files' identity (device, inode, size, times), unless one of
// them changed within the last two seconds; an empty root, or one that cannot be written, is no error.
Source source_of(const std::filesystem::path& folder, const std::string& variant,
                 const std::filesystem::path& store_root, ThreadPool& threads,
                 FingerprintReport* report = nullptr);

}  // namespace difflet::artifact
