#include "difflet/bench/resolved.h"

#include <limits>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

using artifact::JsonFields;

constexpr std::int64_t kMax = std::int64_t{1} << 20;

}  // namespace

Resolved resolve(const Scenario& scenario, const EngineSpec& engine) {
  Resolved r{.engine = engine.name,
             .component = scenario.component,
             .model = {},
             .inputs = {},
             .work = {},
             .width = scenario.width,
             .height = scenario.height,
             .max_sequence_length = scenario.max_sequence_length,
             .n = scenario.n,
             .steps = scenario.steps,
             .dtype = scenario.dtype,
             .prompt = scenario.prompt,
             .guidance = scenario.guidance,
             .seed = scenario.seed,
             .threads = scenario.threads,
             .runs = 1,
             .options = engine.options};
  if (const auto dtype = r.options.find("dtype"); dtype != r.options.end()) {
    const auto parsed =
        dtype->is_string() ? parse_dtype(dtype->get<std::string>()) : std::optional<DType>();
    check(parsed.has_value(), ErrorCode::InvalidArgument, "--engines: {}: unknown dtype",
          engine.name);
    r.dtype = *parsed;
    r.options.erase("dtype");
  }
  return r;
}

Json resolved_json(const Resolved& r, const std::string& name) {
  Json json{{"name", name}, {"engine", r.engine}, {"model", r.model.string()}};
  if (!r.component.empty()) {
    json["component"] = r.component;
    json["inputs"] = r.inputs.string();
  }
  json["work"] = r.work.string();
  json["width"] = r.width;
  json["height"] = r.height;
  json["max_sequence_length"] = r.max_sequence_length;
  json["n"] = r.n;
  json["steps"] = r.steps;
  json["dtype"] = dtype_name(r.dtype);
  json["prompt"] = r.prompt;
  json["guidance"] = r.guidance;
  json["seed"] = r.seed;
  json["threads"] = r.threads;
  json["plan"] = {{"tp", 1}};
  json["runs"] = r.runs;
  json["options"] = r.options;
  return json;
}

Resolved parse_resolved(const Json& json) {
  JsonFields fields(json, "scenario");
  Resolved r;
  r.engine = fields.text("engine");
  r.model = fields.text("model");
  if (fields.has("component")) {
    r.component = fields.text("component");
    r.inputs = fields.text("inputs");
  }
  r.work = fields.text("work");
  r.width = fields.integer("width", 1, kMax);
  r.height = fields.integer("height", 1, kMax);
  r.max_sequence_length = fields.integer("max_sequence_length", 1, kMax);
  r.n = fields.integer("n", 1, kMax);
  r.steps = fields.integer("steps", 1, kMax);
  r.dtype = artifact::read_dtype(fields, "dtype");
  r.prompt = fields.text("prompt");
  fields.expect(fields.at("guidance").is_number(), "guidance", "not a number");
  r.guidance = fields.at("guidance").get<double>();
  r.seed = static_cast<std::uint64_t>(
      fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  r.threads = fields.integer("threads", 1, 1024);
  r.runs = fields.integer("runs", 1, kMax);
  r.options = fields.at("options");
  fields.expect(r.options.is_object(), "options", "not an object");
  return r;
}

}  // namespace difflet::bench
