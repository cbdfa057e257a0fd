#include "difflet/artifact/identity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

constexpr std::size_t kKeyDigits = 16;
constexpr std::size_t kHashDigits = 64;
constexpr std::size_t kRevisionDigits = 40;
constexpr std::size_t kMaxShapes = 1024;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40U;

Json to_json(const ShapeEntry& shape) {
  Json inputs = Json::object();
  for (const auto& [name, dims] : shape.inputs) {
    inputs[name] = dims;
  }
  return Json{{"graph", shape.graph}, {"inputs", std::move(inputs)}};
}

// Elements of all inputs; saturates, because only the order counts.
std::int64_t volume(const ShapeEntry& shape) {
  std::int64_t sum = 0;
  for (const auto& [name, dims] : shape.inputs) {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) {
      if (__builtin_mul_overflow(n, d, &n)) {
        return std::numeric_limits<std::int64_t>::max();
      }
    }
    if (__builtin_add_overflow(sum, n, &sum)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return sum;
}

Json to_json(const Source& source) {
  if (!source.content.empty()) {
    return Json{{"content", source.content}};
  }
  return Json{{"id", source.id},
              {"revision", source.revision},
              {"subfolder", source.subfolder},
              {"variant", source.variant}};
}

Source read_source(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  Source source;
  if (fields.has("content")) {
    source.content = fields.hex("content", kHashDigits);
  } else {
    source.id = fields.text("id");
    source.revision = fields.hex("revision", kRevisionDigits);
    source.subfolder = fields.text("subfolder");
    source.variant = fields.text("variant");
  }
  fields.done();
  return source;
}

ShapeEntry read_shape(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  ShapeEntry shape;
  shape.graph = fields.hex("graph", kHashDigits);
  const Json& inputs = fields.at("inputs");
  fields.expect(inputs.is_object(), "inputs", "not an object");
  for (const auto& item : inputs.items()) {
    fields.expect(item.value().is_array() && item.value().size() <= Shape::kMaxRank, "inputs",
                  "'{}' is not a list of at most {} extents", item.key(), Shape::kMaxRank);
    std::vector<std::int64_t>& dims = shape.inputs[item.key()];
    for (const Json& d : item.value()) {
      dims.push_back(json_integer(d, fields.path("inputs"), 0, kMaxExtent));
    }
  }
  fields.done();
  return shape;
}

OptionValue read_option(const Json& json, const std::string& where) {
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_number_float()) {
    return json.get<double>();
  }
  return json_integer(json, where, std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max());
}

void refuse_non_finite(const Json& json) {
  if (json.is_number_float()) {
    check(std::isfinite(json.get<double>()), ErrorCode::InvalidArgument,
          "a number that is not finite has no canonical form");
  } else if (json.is_structured()) {
    for (const Json& child : json) {
      refuse_non_finite(child);
    }
  }
}

bool is_leaf(const Json& json) {
  return json.empty() || !json.is_structured() ||
         (json.is_array() && std::ranges::none_of(json, &Json::is_structured));
}

void flatten(const Json& json, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (is_leaf(json)) {
    out.emplace_back(path, canonical_text(json));
    return;
  }
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) {
      flatten(json[i], fmt::format("{}[{}]", path, i), out);
    }
    return;
  }
  for (const auto& item : json.items()) {
    flatten(item.value(), path.empty() ? item.key() : path + "." + item.key(), out);
  }
}

}  // namespace

void add_shapes(Identity& identity, std::vector<ShapeEntry> entries) {
  std::vector<std::tuple<std::int64_t, std::string, ShapeEntry>> order;
  const auto add = [&order](ShapeEntry&& shape) {
    std::string text = canonical_text(to_json(shape));
    order.emplace_back(volume(shape), std::move(text), std::move(shape));
  };
  std::ranges::for_each(identity.shapes, [&](ShapeEntry& s) { add(std::move(s)); });
  std::ranges::for_each(entries, [&](ShapeEntry& s) { add(std::move(s)); });
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return std::get<0>(a) != std::get<0>(b) ? std::get<0>(a) > std::get<0>(b)
                                            : std::get<1>(a) < std::get<1>(b);
  });
  identity.shapes.clear();
  for (auto& [size, text, shape] : order) {
    if (identity.shapes.empty() || !(identity.shapes.back() == shape)) {
      identity.shapes.push_back(std::move(shape));
    }
  }
}

Json to_json(const Identity& identity) {
  Json shapes = Json::array();
  for (const ShapeEntry& shape : identity.shapes) {
    shapes.push_back(to_json(shape));
  }
  Json options = Json::object();
  for (const auto& [name, value] : identity.options) {
    std::visit([&, &key = name](const auto& v) { options[key] = v; }, value);
  }
  Json json{{"schema", identity.schema},           {"model", identity.model},
            {"source", to_json(identity.source)},  {"mesh", mesh_json(identity.mesh)},
            {"dtype", dtype_name(identity.dtype)}, {"shapes", std::move(shapes)},
            {"options", std::move(options)},       {"backend", identity.backend},
            {"toolchain", identity.toolchain}};
  (void)canonical_text(json);  // refuses what has no canonical form
  return json;
}

Identity identity_from_json(const Json& json, const std::string& origin) {
  JsonFields fields(json, origin);
  Identity identity;
  identity.schema = fields.integer("schema", 1, std::numeric_limits<std::int64_t>::max());
  check(identity.schema == kIdentitySchema, ErrorCode::Unsupported,
        "{}.schema: {}, this version knows {}", origin, identity.schema, kIdentitySchema);
  identity.model = fields.text("model");
  identity.source = read_source(fields.at("source"), fields.path("source"));
  identity.mesh = read_mesh(fields.at("mesh"), fields.path("mesh"));
  identity.dtype = read_dtype(fields, "dtype");
  std::vector<ShapeEntry> shapes;
  for (const Json& shape : fields.list("shapes", kMaxShapes)) {
    shapes.push_back(
        read_shape(shape, fmt::format("{}[{}]", fields.path("shapes"), shapes.size())));
  }
  add_shapes(identity, shapes);
  fields.expect(identity.shapes == shapes, "shapes", "not in canonical order");
  const Json& options = fields.at("options");
  fields.expect(options.is_object(), "options", "not an object");
  for (const auto& item : options.items()) {
    identity.options[item.key()] = read_option(item.value(), fields.path("options." + item.key()));
  }
  identity.backend = fields.text("backend");
  identity.toolchain = fields.texts("toolchain");
  fields.done();
  return identity;
}

std::string canonical_text(const Json& json) {
  refuse_non_finite(json);
  try {
    return nlohmann::json(json).dump();  // keys of nlohmann::json are sorted by their bytes
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::InvalidArgument, "text that is not UTF-8 has no canonical form");
  }
}

std::string canonical_json(const Identity& identity) { return canonical_text(to_json(identity)); }

std::string key_of(const Identity& identity) {
  return sha256_hex(canonical_json(identity)).substr(0, kKeyDigits);
}

bool is_key(std::string_view text) noexcept { return is_hex(text, kKeyDigits); }

Identity base_of(Identity identity) {
  identity.shapes.clear();
  return identity;
}

std::vector<std::pair<std::string, std::string>> fields(const Identity& identity) {
  std::vector<std::pair<std::string, std::string>> out;
  flatten(Json::parse(canonical_json(identity)), "", out);
  return out;
}

std::vector<FieldDifference> differences(const Identity& a, const Identity& b) {
  std::map<std::string, FieldDifference> all;
  for (auto& [path, value] : fields(a)) {
    all[path].a = value;
  }
  for (auto& [path, value] : fields(b)) {
    all[path].b = value;
  }
  std::vector<FieldDifference> out;
  for (auto& [path, difference] : all) {
    if (difference.a != difference.b) {
      difference.path = path;
      out.push_back(std::move(difference));
    }
  }
  return out;
}

}  // namespace difflet::artifact
