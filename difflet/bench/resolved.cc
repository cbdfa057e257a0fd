#include "difflet/bench/resolved.h"

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/graph/enum_names.h"

namespace difflet::bench {

using artifact::JsonFields;

Resolved resolve(const Scenario& scenario, const EngineSpec& engine) {
  Resolved r;
  const Request& asked = scenario;
  static_cast<Request&>(r) = asked;
  r.engine = engine.name;
  r.options = engine.options;
  if (const auto dtype = r.options.find("dtype"); dtype != r.options.end()) {
    const auto parsed =
        dtype->is_string() ? parse_dtype(dtype->get<std::string>()) : std::optional<DType>();
    check(parsed.has_value(), ErrorCode::InvalidArgument, "--engines: {}: unknown dtype",
          engine.name);
    r.dtype = *parsed;
    r.options.erase("dtype");
  }
  if (const auto quant = r.options.find("quant"); quant != r.options.end()) {
    const auto parsed = quant->is_string()
                            ? graph::parse_enum<graph::WeightQuant>(quant->get<std::string>())
                            : std::nullopt;
    check(parsed.has_value(), ErrorCode::InvalidArgument, "--engines: {}: quant is not one of {}",
          engine.name, fmt::join(graph::names(graph::WeightQuant{}), ", "));
    r.quant = *parsed;
    r.options.erase("quant");
  }
  return r;
}

Json resolved_json(const Resolved& r, const std::string& name) {
  Json json{{"name", name},
            {"engine", r.engine},
            {"model", r.model.string()},
            {"work", r.work.string()},
            {"runs", r.runs},
            {"options", r.options}};
  if (!r.component.empty()) {
    json["inputs"] = r.inputs.string();
  }
  write_request(r, json);
  return json;
}

Resolved parse_resolved(const Json& json) {
  JsonFields fields(json, "scenario");
  Resolved r;
  static_cast<Request&>(r) = read_request(fields);
  r.engine = fields.text("engine");
  r.model = fields.text("model");
  r.work = fields.text("work");
  r.inputs = r.component.empty() ? "" : fields.text("inputs");
  r.runs = fields.integer("runs", 1, std::int64_t{1} << 20);
  r.options = fields.at("options");
  fields.expect(r.options.is_object(), "options", "not an object");
  return r;
}

}  // namespace difflet::bench
