#include "difflet/artifact/json_fields.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "difflet/base/sha256.h"

namespace difflet::artifact {

JsonFields::JsonFields(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  check(json_.is_object(), ErrorCode::DataLoss, "{}: not an object", where_);
}

const Json& JsonFields::at(const std::string& key) {
  const auto found = json_.find(key);
  expect(found != json_.end(), key, "missing");
  taken_.push_back(key);
  return *found;
}

std::string JsonFields::text(const std::string& key) {
  const Json& value = at(key);
  expect(value.is_string(), key, "not a string");
  return value.get<std::string>();
}

std::int64_t JsonFields::integer(const std::string& key, std::int64_t min, std::int64_t max) {
  return json_integer(at(key), path(key), min, max);
}

std::uint64_t JsonFields::bytes(const std::string& key) {
  return static_cast<std::uint64_t>(integer(key, 0, std::numeric_limits<std::int64_t>::max() / 64));
}

std::string JsonFields::hex(const std::string& key, std::size_t digits) {
  std::string value = text(key);
  expect(is_hex(value, digits), key, "not {} hex digits", digits);
  return value;
}

std::map<std::string, std::string> JsonFields::texts(const std::string& key) {
  const Json& object = at(key);
  expect(object.is_object(), key, "not an object");
  std::map<std::string, std::string> out;
  for (const auto& item : object.items()) {
    expect(item.value().is_string(), key, "'{}' is not a string", item.key());
    out[item.key()] = item.value().get<std::string>();
  }
  return out;
}

const Json& JsonFields::list(const std::string& key, std::size_t max_size) {
  const Json& value = at(key);
  expect(value.is_array(), key, "not a list");
  expect(value.size() <= max_size, key, "{} entries, at most {} are allowed", value.size(),
         max_size);
  return value;
}

void JsonFields::done() const {
  if (taken_.size() == json_.size()) {
    return;
  }
  for (const auto& item : json_.items()) {
    expect(std::ranges::find(taken_, item.key()) != taken_.end(), item.key(), "unknown");
  }
}

std::int64_t json_integer(const Json& json, const std::string& where, std::int64_t min,
                          std::int64_t max) {
  check(json.is_number_integer(), ErrorCode::DataLoss, "{}: not an integer", where);
  // Above the range of int64 the library keeps a value as unsigned.
  const bool fits =
      !json.is_number_unsigned() ||
      json.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  check(fits && json.get<std::int64_t>() >= min && json.get<std::int64_t>() <= max,
        ErrorCode::DataLoss, "{}: not in {} ... {}", where, min, max);
  return json.get<std::int64_t>();
}

Json mesh_json(const spmd::Mesh& mesh) {
  Json json = Json::object();
  for (std::size_t i = 0; i < spmd::kAxes; ++i) {
    const auto axis = static_cast<spmd::Axis>(i);
    json[std::string(spmd::axis_name(axis))] = mesh.size(axis);
  }
  return json;
}

spmd::Mesh read_mesh(const Json& json, const std::string& where) {
  constexpr std::int64_t kMaxRanks = 4096;  // of each axis, as Mesh has it
  JsonFields fields(json, where);
  const auto size = [&fields](const char* axis) { return fields.integer(axis, 1, kMaxRanks); };
  const spmd::Mesh mesh(size("dp"), size("cfg"), size("cp"), size("tp"));
  fields.done();
  return mesh;
}

DType read_dtype(JsonFields& fields, const std::string& key) {
  const std::optional<DType> dtype = parse_dtype(fields.text(key));
  fields.expect(dtype.has_value(), key, "unknown dtype");
  return dtype.value_or(DType::F32);
}

}  // namespace difflet::artifact
