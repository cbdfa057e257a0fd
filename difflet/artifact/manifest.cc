#include "difflet/artifact/manifest.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"
#include "difflet/graph/enum_names.h"

namespace difflet::artifact {
namespace {

constexpr std::array<std::string_view, 3> kStageNames = {"request", "schedule", "step"};
constexpr std::size_t kHashDigits = 64;
constexpr std::size_t kKeyDigits = 16;
constexpr std::size_t kMaxPrograms = 4096;
constexpr std::size_t kMaxPorts = 1U << 20U;
constexpr std::size_t kMaxRanks = 1U << 16U;

Json to_json(const FileRecord& file) {
  return Json{{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

FileRecord read_file_record(const Json& json, const std::string& where,
                            const std::string& expected_name) {
  JsonFields fields(json, where);
  FileRecord file;
  file.name = fields.text("name");
  fields.expect(file.name == expected_name, "name", "not '{}'", expected_name);
  file.bytes = fields.bytes("bytes");
  file.sha256 = fields.hex("sha256", kHashDigits);
  fields.done();
  return file;
}

Json to_json(const std::vector<runtime::Port>& ports) {
  Json list = Json::array();
  for (const runtime::Port& port : ports) {
    list.push_back(Json{{"name", port.name},
                        {"dtype", dtype_name(port.type.dtype)},
                        {"shape", port.type.shape.dims()},
                        {"binding", graph::enum_name(port.binding)}});
  }
  return list;
}

runtime::Port read_port(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  runtime::Port port;
  port.name = fields.text("name");
  port.type.dtype = read_dtype(fields, "dtype");
  std::vector<std::int64_t> dims;
  for (const Json& d : fields.list("shape", Shape::kMaxRank)) {
    dims.push_back(
        json_integer(d, fields.path("shape"), 0, std::numeric_limits<std::int64_t>::max()));
  }
  try {
    port.type.shape = Shape(dims);
  } catch (const Error& e) {
    fail(ErrorCode::DataLoss, "{}: {}", fields.path("shape"), e.message());
  }
  const auto binding = graph::parse_enum<graph::Binding>(fields.text("binding"));
  fields.expect(binding.has_value(), "binding", "unknown");
  port.binding = *binding;
  fields.done();
  return port;
}

std::vector<runtime::Port> read_ports(const Json& list, const std::string& where) {
  std::vector<runtime::Port> ports;
  for (const Json& json : list) {
    ports.push_back(read_port(json, fmt::format("{}[{}]", where, ports.size())));
  }
  return ports;
}

// An object, so that no name is there twice; members keep their order.
Json to_json(const std::vector<runtime::WeightPiece>& pieces) {
  Json::object_t object;
  for (const runtime::WeightPiece& piece : pieces) {
    static_cast<Json::object_t::Container&>(object).emplace_back(piece.name, piece.bytes);
  }
  return Json(std::move(object));
}

std::vector<runtime::WeightPiece> read_pieces(const Json& json, const std::string& where) {
  check(json.is_object(), ErrorCode::DataLoss, "{}: not an object", where);
  std::vector<runtime::WeightPiece> pieces;
  for (const auto& item : json.items()) {
    const std::int64_t bytes =
        json_integer(item.value(), where, 0, std::numeric_limits<std::int64_t>::max() / 64);
    check(bytes % std::int64_t{runtime::kPieceAlignment} == 0, ErrorCode::DataLoss,
          "{}: '{}' is not of a multiple of {} bytes", where, item.key(), runtime::kPieceAlignment);
    pieces.push_back({item.key(), static_cast<std::size_t>(bytes)});
  }
  return pieces;
}

Json to_json(const ProgramRecord& program) {
  return Json{{"shape", program.shape},
              {"stage", stage_name(program.stage)},
              {"file", to_json(program.file)},
              {"name", program.name},
              {"mesh", mesh_json(program.mesh)},
              {"inputs", to_json(program.inputs)},
              {"outputs", to_json(program.outputs)},
              {"pieces", to_json(program.pieces)}};
}

ProgramRecord read_program(const Json& json, const std::string& where, std::size_t shapes) {
  JsonFields fields(json, where);
  ProgramRecord program;
  program.shape =
      static_cast<std::size_t>(fields.integer("shape", 0, static_cast<std::int64_t>(shapes) - 1));
  const auto stage = parse_stage(fields.text("stage"));
  fields.expect(stage.has_value(), "stage", "unknown");
  program.stage = *stage;
  program.file = read_file_record(fields.at("file"), fields.path("file"),
                                  program_name(program.shape, program.stage));
  program.name = fields.text("name");
  program.mesh = read_mesh(fields.at("mesh"), fields.path("mesh"));
  program.inputs = read_ports(fields.list("inputs", kMaxPorts), fields.path("inputs"));
  program.outputs = read_ports(fields.list("outputs", kMaxPorts), fields.path("outputs"));
  program.pieces = read_pieces(fields.at("pieces"), fields.path("pieces"));
  fields.done();
  return program;
}

// The object of a manifest, of the schema that this version reads.
Json read_object(std::string_view text, const std::string& origin) {
  check(text.size() <= kMaxManifestBytes, ErrorCode::DataLoss, "{}: {} bytes are too many", origin,
        text.size());
  Json json = parse_json(text, origin);
  check(json.is_object() && json.contains("schema"), ErrorCode::DataLoss, "{}.schema: missing",
        origin);
  const std::int64_t schema =
      json_integer(json["schema"], origin + ".schema", 0, std::numeric_limits<std::int64_t>::max());
  check(schema == kManifestSchema, ErrorCode::Unsupported, "{}.schema: {}, this version reads {}",
        origin, schema, kManifestSchema);
  return json;
}

std::string dump(const Json& json) {
  try {
    return json.dump() + "\n";
  } catch (const Json::exception&) {
    fail(ErrorCode::InvalidArgument, "a manifest cannot hold text that is not UTF-8");
  }
}

std::int64_t entry_order(const ProgramRecord& program) {
  return static_cast<std::int64_t>(program.shape * kStageNames.size()) +
         static_cast<std::int64_t>(program.stage);
}

}  // namespace

std::string_view stage_name(Stage stage) noexcept {
  return kStageNames[static_cast<std::size_t>(stage)];
}

std::optional<Stage> parse_stage(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kStageNames, name);
  return found == kStageNames.end()
             ? std::nullopt
             : std::optional(static_cast<Stage>(found - kStageNames.begin()));
}

std::string shard_name(std::size_t rank) {
  return fmt::format("tp{}_sharded_checkpoint.safetensors", rank);
}

std::string program_name(std::size_t shape, Stage stage) {
  return fmt::format("{}-{}.program", shape, stage_name(stage));
}

std::string weights_key(const Identity& base, const std::vector<runtime::WeightPiece>& pieces) {
  Json sizes = Json::object();
  for (const runtime::WeightPiece& piece : pieces) {
    static_cast<Json::object_t::Container&>(sizes.get_ref<Json::object_t&>())
        .emplace_back(piece.name, piece.bytes);
  }
  const Json json{{"base", to_json(base_of(base))}, {"pieces", std::move(sizes)}};
  return sha256_hex(canonical_text(json)).substr(0, kKeyDigits);
}

std::vector<runtime::WeightPiece> union_of_pieces(
    const std::vector<const runtime::CompiledProgram*>& programs) {
  std::map<std::string_view, std::size_t> sizes;
  std::vector<runtime::WeightPiece> pieces;
  for (const runtime::CompiledProgram* program : programs) {
    for (const runtime::WeightPiece& piece : program->pieces) {
      const auto [at, added] = sizes.emplace(piece.name, piece.bytes);
      require(at->second == piece.bytes, "pieces of one name are of one size");
      if (added) {
        pieces.push_back(piece);
      }
    }
  }
  return pieces;
}

std::string to_text(const Manifest& manifest) {
  Json programs = Json::array();
  for (const ProgramRecord& program : manifest.programs) {
    programs.push_back(to_json(program));
  }
  return dump(Json{
      {"schema", kManifestSchema},
      {"key", manifest.key},
      {"identity", to_json(manifest.identity)},
      {"schedule_capacity", manifest.schedule_capacity},
      {"weights", {{"key", manifest.weights.key}, {"generation", manifest.weights.generation}}},
      {"metadata", manifest.metadata},
      {"programs", std::move(programs)}});
}

std::string to_text(const WeightsManifest& manifest) {
  Json files = Json::array();
  for (const FileRecord& file : manifest.files) {
    files.push_back(to_json(file));
  }
  return dump(Json{{"schema", kManifestSchema},
                   {"key", manifest.key},
                   {"base", to_json(manifest.base)},
                   {"metadata", manifest.metadata},
                   {"files", std::move(files)},
                   {"pieces", to_json(manifest.pieces)}});
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const Json json = read_object(text, origin);
  JsonFields fields(json, origin);
  (void)fields.at("schema");
  Manifest manifest;
  manifest.key = fields.hex("key", kKeyDigits);
  manifest.identity = identity_from_json(fields.at("identity"), fields.path("identity"));
  fields.expect(key_of(manifest.identity) == manifest.key, "key",
                "{} is not the key of the identity, {}", manifest.key, key_of(manifest.identity));
  manifest.schedule_capacity = fields.integer("schedule_capacity", 0, 1 << 20U);
  JsonFields weights(fields.at("weights"), fields.path("weights"));
  manifest.weights.key = weights.hex("key", kKeyDigits);
  manifest.weights.generation = weights.text("generation");
  weights.expect(is_generation(manifest.weights.generation), "generation", "not a generation");
  weights.done();
  manifest.metadata = fields.texts("metadata");
  for (const Json& program : fields.list("programs", kMaxPrograms)) {
    manifest.programs.push_back(read_program(
        program, fmt::format("{}[{}]", fields.path("programs"), manifest.programs.size()),
        manifest.identity.shapes.size()));
  }
  const auto& p = manifest.programs;
  fields.expect(std::ranges::adjacent_find(p, std::ranges::greater_equal(), entry_order) == p.end(),
                "programs", "not in order, or one of them twice");
  fields.expect(std::ranges::all_of(
                    p, [&](const ProgramRecord& r) { return r.mesh == manifest.identity.mesh; }),
                "programs", "a mesh is not that of the identity");
  fields.done();
  return manifest;
}

WeightsManifest parse_weights_manifest(std::string_view text, const std::string& origin) {
  const Json json = read_object(text, origin);
  JsonFields fields(json, origin);
  (void)fields.at("schema");
  WeightsManifest manifest;
  manifest.key = fields.hex("key", kKeyDigits);
  manifest.base = identity_from_json(fields.at("base"), fields.path("base"));
  fields.expect(manifest.base.shapes.empty(), "base", "has shapes");
  manifest.metadata = fields.texts("metadata");
  for (const Json& file : fields.list("files", kMaxRanks)) {
    manifest.files.push_back(
        read_file_record(file, fmt::format("{}[{}]", fields.path("files"), manifest.files.size()),
                         shard_name(manifest.files.size())));
  }
  fields.expect(manifest.files.size() == static_cast<std::size_t>(manifest.base.mesh.ranks()),
                "files", "{} files for {} ranks", manifest.files.size(),
                manifest.base.mesh.ranks());
  manifest.pieces = read_pieces(fields.at("pieces"), fields.path("pieces"));
  fields.expect(std::ranges::is_sorted(manifest.pieces, {}, &runtime::WeightPiece::name), "pieces",
                "not sorted");
  fields.expect(weights_key(manifest.base, manifest.pieces) == manifest.key, "key",
                "{} is not the key of base and pieces", manifest.key);
  fields.done();
  return manifest;
}

bool is_generation(std::string_view name) noexcept {
  return name.size() == 7 && name[0] == 'g' &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace difflet::artifact
