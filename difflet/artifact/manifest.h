// What lies beside the files of a stored generation and describes them completely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/artifact/identity.h"
#include "difflet/runtime/program.h"

namespace difflet::artifact {

inline constexpr std::int64_t kManifestSchema = 1;
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20U;

// When a program runs: once a request, once for all timesteps, or at every step. A component that is
// not split has one program, of stage Step.
enum class Stage : std::uint8_t { Request, Schedule, Step };
std::string_view stage_name(Stage stage) noexcept;  // "request", "schedule", "step"
std::optional<Stage> parse_stage(std::string_view name) noexcept;

struct FileRecord {
  std::string name;  // without folders
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 hex digits

  bool operator==(const FileRecord&) const = default;
};

// A compiled program without its code, which is the file's content.
struct ProgramRecord {
  std::size_t shape = 0;  // index into the identity's shapes
  Stage stage = Stage::Step;
  FileRecord file;  // "<shape>-<stage>.program"
  std::string name;
  spmd::Mesh mesh;
  std::vector<runtime::Port> inputs, outputs;
  std::vector<runtime::WeightPiece> pieces;

  bool operator==(const ProgramRecord&) const = default;
};

struct WeightsReference {
  std::string key;         // of the weight set
  std::string generation;  // "g000001"

  bool operator==(const WeightsReference&) const = default;
};

// artifacts/<key>/<generation>/manifest.json
struct Manifest {
  std::string key;
  Identity identity;
  std::vector<ProgramRecord> programs;  // by shape, then stage; none twice
  WeightsReference weights;
  std::int64_t schedule_capacity = 0;           // timesteps of one schedule run; 0: not split
  std::map<std::string, std::string> metadata;  // for people: "model", "component", "created", ...

  bool operator==(const Manifest&) const = default;
};

// weights/<key>/<generation>/manifest.json
struct WeightsManifest {
  std::string key;                           // weights_key(base, pieces)
  Identity base;                             // without shapes
  std::vector<runtime::WeightPiece> pieces;  // of each rank, sorted by name
  std::vector<FileRecord> files;             // in the order of ranks
  std::map<std::string, std::string> metadata;

  bool operator==(const WeightsManifest&) const = default;
};

// "tp3_sharded_checkpoint.safetensors"
std::string shard_name(std::size_t rank);
// "0-step.program"
std::string program_name(std::size_t shape, Stage stage);

bool is_generation(std::string_view name) noexcept;  // "g000001"

// 16 hex digits over the base identity and the sorted pieces.
std::string weights_key(const Identity& base, const std::vector<runtime::WeightPiece>& pieces);

// The union of the programs' pieces, in the order in which they are first named. Throws Internal when
// two of one name differ in size.
std::vector<runtime::WeightPiece> union_of_pieces(
    const std::vector<const runtime::CompiledProgram*>& programs);

std::string to_text(const Manifest& manifest);
std::string to_text(const WeightsManifest& manifest);
// Strict: DataLoss, naming `origin` and the field, for anything unknown, missing, of another type or
// out of range, for a file name that is not the one this version writes, and for a key that is not the
// key of the identity. Unsupported for another schema.
Manifest parse_manifest(std::string_view text, const std::string& origin);
WeightsManifest parse_weights_manifest(std::string_view text, const std::string& origin);

}  // namespace difflet::artifact
