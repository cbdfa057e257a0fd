// Everything that decides compiled output, as one value with one canonical text and one key.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/spmd/mesh.h"
#include "difflet/tensor/dtype.h"

namespace difflet::artifact {

inline constexpr std::int64_t kIdentitySchema = 1;

// The weights and the configuration that a component is made of. Either a place in a pinned snapshot
// of a hub (id, revision and, where given, subfolder and variant) or the digest of a folder's content.
struct Source {
  std::string id;         // "org/name"
  std::string revision;   // commit, 40 hex digits
  std::string subfolder;  // inside the snapshot, "transformer"; empty for its root
  std::string variant;    // of the weight files, "fp16"; empty for none
  std::string content;    // 64 hex digits (fingerprint.h); then all others are empty

  bool operator==(const Source&) const = default;
};

// One size that was compiled.
struct ShapeEntry {
  std::map<std::string, std::vector<std::int64_t>> inputs;  // name of a graph input -> extents
  std::string graph;  // SHA-256 of the traced graph's text, 64 hex digits

  bool operator==(const ShapeEntry&) const = default;
};

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

// What an artifact was compiled from and for. No path, host, thread count, seed or number of steps:
// those belong to a run.
struct Identity {
  std::int64_t schema = kIdentitySchema;
  std::string model;  // class of the component, "FluxTransformer2DModel"
  Source source;
  spmd::Mesh mesh;
  DType dtype = DType::BF16;
  std::vector<ShapeEntry> shapes;              // set by add_shapes(): largest first, none twice
  std::map<std::string, OptionValue> options;  // compile options, "schedule_capacity" -> 64
  std::string backend;
  std::map<std::string, std::string> toolchain;  // "difflet" and Backend::toolchain()

  bool operator==(const Identity&) const = default;
};

// Adds entries and puts `shapes` into its canonical order: by the number of elements of all inputs,
// largest first, then by the entries' text; an entry that is there already is left out.
void add_shapes(Identity& identity, std::vector<ShapeEntry> entries);

// Throws InvalidArgument for a value that has no canonical form: NaN or Inf, text that is not UTF-8.
Json to_json(const Identity& identity);
// Strict: DataLoss, naming the field, for one that is unknown, missing or of another type, and for
// shapes that are not in canonical order. `origin` names the text in errors.
Identity identity_from_json(const Json& json, const std::string& origin);

// Any JSON value with sorted keys, without white space, in UTF-8. Throws as to_json() does.
std::string canonical_text(const Json& json);
std::string canonical_json(const Identity& identity);
// The first 16 hex digits of the SHA-256 of canonical_json().
std::string key_of(const Identity& identity);
bool is_key(std::string_view text) noexcept;  // 16 lower-case hex digits

// What all sizes of one model have in common: the identity without its shapes.
Identity base_of(Identity identity);

// One field in which two identities differ; values as JSON, empty where a side has no such field.
struct FieldDifference {
  std::string path;  // "toolchain.onednn", "shapes[0].inputs.hidden_states"
  std::string a, b;
};
std::vector<FieldDifference> differences(const Identity& a, const Identity& b);

// Every field with its value as JSON, in canonical order (what a key is made of).
std::vector<std::pair<std::string, std::string>> fields(const Identity& identity);

}  // namespace difflet::artifact
