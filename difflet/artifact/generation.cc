#include "difflet/artifact/generation.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "difflet/artifact/json_fields.h"
#include "difflet/artifact/lock.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStoreSchema = 1;
constexpr std::size_t kMaxMarkerBytes = 4096;

std::string marker_text() { return fmt::format("{{\"difflet_store\":{}}}\n", kStoreSchema); }

// Throws unless the marker is of this schema.
void check_marker(const Folder& root) {
  const std::string origin = (root.path() / kMarker).string();
  const Json json = parse_json(root.read(kMarker, kMaxMarkerBytes), origin);
  JsonFields fields(json, origin);
  const std::int64_t schema = fields.integer("difflet_store", 1, 1 << 20U);
  check(schema == kStoreSchema, ErrorCode::Unsupported, "{}: schema {}, this version knows {}",
        origin, schema, kStoreSchema);
}

bool same_file(const FileStatus& a, const FileStatus& b) {
  return a.device == b.device && a.inode == b.inode;
}

// Opens and locks a manifest, then makes sure that its path still leads there: whoever removes a
// generation locks its manifest exclusively, moves it away and only then lets go.
Fd pin_manifest(const Folder& root, const char* kind, const std::string& key,
                const std::string& generation, const Folder& folder) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  constexpr int kTries = 1000;  // others hold it for moments, to see whether it is in use
  Fd fd = folder.file(kManifest);
  int tries = 0;
  while (!try_lock(fd, LockKind::Shared)) {
    check(++tries < kTries, ErrorCode::NotFound, "'{}' is being removed", folder.path().string());
    std::this_thread::sleep_for(kPause);
  }
  const std::optional<Folder> again = open_generation(root, kind, key, generation);
  const std::optional<FileStatus> at = again ? again->status(kManifest) : std::nullopt;
  check(at && same_file(*at, status_of(fd)), ErrorCode::NotFound, "'{}' was removed",
        folder.path().string());
  return fd;
}

Folder must_open(const Folder& root, const char* kind, const std::string& key,
                 const std::string& generation) {
  std::optional<Folder> folder = open_generation(root, kind, key, generation);
  check(folder.has_value(), ErrorCode::NotFound, "there is no '{}'",
        (root.path() / kind / key / generation).string());
  return *std::move(folder);
}

std::string read_manifest(const Fd& fd, const Folder& folder) {
  return read_all(fd, folder.path() / kManifest, kMaxManifestBytes);
}

// False when it is not there.
bool check_size(const Folder& folder, const FileRecord& file) {
  const std::optional<FileStatus> status = folder.status(file.name);
  if (!status) {
    return false;
  }
  const std::string path = (folder.path() / file.name).string();
  check(status->kind == FileKind::Regular, ErrorCode::DataLoss, "'{}' is not a regular file", path);
  check(status->bytes == file.bytes, ErrorCode::DataLoss, "'{}' has {} bytes, its manifest says {}",
        path, status->bytes, file.bytes);
  return true;
}

bool holds(const WeightsManifest& set, std::span<const runtime::WeightPiece> pieces) {
  return std::ranges::all_of(pieces, [&](const runtime::WeightPiece& piece) {
    const auto found =
        std::ranges::lower_bound(set.pieces, piece.name, {}, &runtime::WeightPiece::name);
    return found != set.pieces.end() && *found == piece;
  });
}

}  // namespace

StoreRoot open_store(const fs::path& root) {
  StoreRoot out;
  try {
    std::optional<Folder> folder = Folder::open(root);
    if (!folder) {
      out.reason = fmt::format("there is no store at '{}'", root.string());
      return out;
    }
    if (!folder->status(kMarker)) {
      // A writer that was killed before the marker was there leaves its staging.
      out.foreign = std::ranges::any_of(folder->names(),
                                        [](const std::string& name) { return name != kStaging; });
      out.reason = fmt::format("'{}' has no {}: not a store", root.string(), kMarker);
      return out;
    }
    check_marker(*folder);
    out.folder = std::move(folder);
  } catch (const Error& e) {
    out.foreign = true;
    out.reason = e.message();
  }
  return out;
}

void make_marker(const Folder& root) {
  if (!root.status(kMarker)) {
    const Staging staging = Staging::make(root);
    staging.folder().write(kMarker, marker_text());
    (void)staging.folder().rename(kMarker, root, kMarker);
    root.sync();
  }
}

Folder make_store(const fs::path& root) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error) {
    fail_errno("make folder", root, error.value());
  }
  std::optional<Folder> folder = Folder::open(root);
  check(folder.has_value(), ErrorCode::NotFound, "there is no folder '{}'", root.string());
  make_marker(*folder);
  try {
    check_marker(*folder);
  } catch (Error& e) {
    fail(ErrorCode::InvalidArgument, "not a store that can be written: {}", e.message());
  }
  return *std::move(folder);
}

std::vector<std::string> stored_keys(const Folder& root, const char* kind) {
  const std::optional<Folder> folder = root.child(kind);
  std::vector<std::string> keys = folder ? folder->names() : std::vector<std::string>();
  std::erase_if(keys, [](const std::string& name) { return !is_key(name); });
  return keys;
}

std::vector<std::string> stored_generations(const Folder& root, const char* kind,
                                            const std::string& key) {
  const std::optional<Folder> folder = root.child(kind);
  const std::optional<Folder> of_key = folder ? folder->child(key) : std::nullopt;
  std::vector<std::string> names = of_key ? of_key->names() : std::vector<std::string>();
  std::erase_if(names, [](const std::string& name) { return !is_generation(name); });
  std::ranges::reverse(names);
  return names;
}

std::string next_generation(const Folder& root, const char* kind, const std::string& key) {
  const std::vector<std::string> names = stored_generations(root, kind, key);
  const int newest = names.empty() ? 0 : std::stoi(names.front().substr(1));
  const std::string next = fmt::format("g{:06}", newest + 1);
  check(is_generation(next), ErrorCode::ResourceExhausted,
        "key {} has used up its generations; remove it", key);
  return next;
}

std::optional<Folder> open_generation(const Folder& root, const char* kind, const std::string& key,
                                      const std::string& generation) {
  const std::optional<Folder> folder = root.child(kind);
  const std::optional<Folder> of_key = folder ? folder->child(key) : std::nullopt;
  return of_key ? of_key->child(generation) : std::nullopt;
}

std::shared_ptr<const StoredArtifact> load_artifact(const Folder& root, const std::string& key,
                                                    const std::string& generation) {
  const Folder folder = must_open(root, kArtifacts, key, generation);
  Fd pin = pin_manifest(root, kArtifacts, key, generation, folder);
  Manifest manifest =
      parse_manifest(read_manifest(pin, folder), (folder.path() / kManifest).string());
  check(manifest.key == key, ErrorCode::DataLoss, "'{}' describes another key, {}",
        folder.path().string(), manifest.key);
  for (const ProgramRecord& program : manifest.programs) {
    check(check_size(folder, program.file), ErrorCode::DataLoss, "'{}' is missing",
          (folder.path() / program.file.name).string());
  }
  return std::make_shared<const StoredArtifact>(
      StoredArtifact{folder, std::move(pin), generation, std::move(manifest)});
}

std::shared_ptr<const StoredWeights> load_weights(const Folder& root, const std::string& key,
                                                  const std::string& generation) {
  const Folder folder = must_open(root, kWeights, key, generation);
  Fd pin = pin_manifest(root, kWeights, key, generation, folder);
  WeightsManifest manifest =
      parse_weights_manifest(read_manifest(pin, folder), (folder.path() / kManifest).string());
  check(manifest.key == key, ErrorCode::DataLoss, "'{}' describes another key, {}",
        folder.path().string(), manifest.key);
  std::string absent;
  for (const FileRecord& file : manifest.files) {
    if (!check_size(folder, file) && absent.empty()) {
      absent = fmt::format("'{}' is missing", (folder.path() / file.name).string());
    }
  }
  return std::make_shared<const StoredWeights>(
      StoredWeights{folder, std::move(pin), generation, std::move(manifest), std::move(absent)});
}

std::shared_ptr<const StoredWeights> search_weights(const Folder& root, const Identity& base,
                                                    std::span<const runtime::WeightPiece> pieces) {
  const Identity wanted = base_of(base);
  for (const std::string& key : stored_keys(root, kWeights)) {
    try {
      for (const std::string& generation : stored_generations(root, kWeights, key)) {
        try {
          auto set = load_weights(root, key, generation);
          if (!(set->manifest.base == wanted) || !holds(set->manifest, pieces)) {
            break;  // all generations of a key have the same base and pieces
          }
          if (set->absent.empty()) {
            return set;
          }
        } catch (const Error&) {
          continue;  // an unusable one is not found
        }
      }
    } catch (const Error&) {
      continue;
    }
  }
  return nullptr;
}

ResolvedWeights resolve_weights(const Folder& root, const Manifest& manifest) {
  const std::vector<runtime::WeightPiece> pieces = pieces_of(manifest);
  ResolvedWeights out;
  std::optional<Error> damage;
  try {
    auto set = load_weights(root, manifest.weights.key, manifest.weights.generation);
    check(set->manifest.base == base_of(manifest.identity) && holds(set->manifest, pieces),
          ErrorCode::DataLoss, "weight set {} is not that of artifact {}", manifest.weights.key,
          manifest.key);
    out.absent = set->absent;
    if (out.absent.empty()) {
      out.set = std::move(set);
      return out;
    }
  } catch (const Error& e) {
    out.absent = e.message();
    if (e.code() != ErrorCode::NotFound) {
      damage = e;
    }
  }
  out.set = search_weights(root, manifest.identity, pieces);
  if (!out.set && damage) {
    throw Error(*damage);
  }
  return out;
}

std::vector<runtime::WeightPiece> pieces_of(const Manifest& manifest) {
  std::set<std::string_view> names;
  std::vector<runtime::WeightPiece> pieces;
  for (const ProgramRecord& program : manifest.programs) {
    for (const runtime::WeightPiece& piece : program.pieces) {
      if (names.insert(piece.name).second) {
        pieces.push_back(piece);
      }
    }
  }
  return pieces;
}

}  // namespace difflet::artifact
