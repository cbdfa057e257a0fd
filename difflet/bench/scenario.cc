#include "difflet/bench/scenario.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"
#include "difflet/graph/enum_names.h"

namespace difflet::bench {
namespace {

using artifact::JsonFields;

constexpr std::int64_t kMaxPixels = 65536;
constexpr std::size_t kMaxPoints = 64;
constexpr std::array<std::string_view, 4> kComponents{"transformer", "vae", "text_encoder",
                                                      "text_encoder_2"};

SyntheticFlux read_recipe(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  fields.expect(fields.text("pipeline") == "flux", "pipeline", "only flux is known");
  SyntheticFlux recipe{.doubles = fields.integer("double", 0, 1000),
                       .singles = fields.integer("single", 0, 1000),
                       .t5_layers = fields.integer("t5_layers", 1, 1000),
                       .clip_layers = fields.integer("clip_layers", 1, 1000)};
  fields.done();
  return recipe;
}

ModelSource read_model(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  ModelSource model;
  if (fields.has("synthetic")) {
    model.synthetic = read_recipe(fields.at("synthetic"), fields.path("synthetic"));
  } else if (fields.has("repository")) {
    model.repository = fields.text("repository");
    model.revision = fields.hex("revision", 40);
  } else {
    model.folder = fields.text("folder");
    fields.expect(!model.folder.empty(), "folder", "empty");
  }
  fields.done();
  return model;
}

double read_number(JsonFields& fields, const std::string& key, double max) {
  const Json& value = fields.at(key);
  const double number = value.is_number() ? value.get<double>() : -1;
  fields.expect(number >= 0 && number <= max, key, "not a number in 0 ... {}", max);
  return number;
}

std::int64_t read_tp(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  const std::int64_t tp = fields.integer("tp", 1, 4096);
  fields.expect(tp == 1, "tp", "only 1 is measured so far");
  fields.done();
  return tp;
}

std::optional<std::int64_t> whole(std::string_view text, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc{} && end == text.data() + text.size();
  return good && value >= 1 && value <= max ? std::optional(value) : std::nullopt;
}

// The scenario with one field set. False for a field that cannot be swept or a value that cannot be.
bool apply(Scenario& scenario, const SweepPoint& point) {
  if (point.field == "size") {
    const std::size_t x = std::min(point.value.find('x'), point.value.size());
    const auto width = whole(std::string_view(point.value).substr(0, x), kMaxPixels);
    const auto height = x < point.value.size()
                            ? whole(std::string_view(point.value).substr(x + 1), kMaxPixels)
                            : std::nullopt;
    scenario.width = width.value_or(0);
    scenario.height = height.value_or(0);
    return width && height;
  }
  struct Field {
    std::string_view name;
    std::int64_t Scenario::* member;
    std::int64_t max;
  };
  constexpr std::array kFields{
      Field{"threads", &Scenario::threads, 1024},
      Field{"n", &Scenario::n, 1024},
      Field{"steps", &Scenario::steps, 1000},
      Field{"max_sequence_length", &Scenario::max_sequence_length, 512},
  };
  for (const Field& field : kFields) {
    if (field.name == point.field) {
      const auto value = whole(point.value, field.max);
      scenario.*field.member = value.value_or(1);
      return value.has_value();
    }
  }
  return false;
}

std::vector<SweepPoint> read_sweep(const Json& json, const std::string& where,
                                   const Scenario& scenario) {
  check(json.is_object() && json.size() == 1, ErrorCode::DataLoss,
        "{}: not an object of one field to sweep", where);
  const std::string field = json.items().begin().key();
  const Json& values = json.items().begin().value();
  check(values.is_array() && !values.empty() && values.size() <= kMaxPoints, ErrorCode::DataLoss,
        "{}.{}: not a list of 1 ... {} values", where, field, kMaxPoints);
  std::vector<SweepPoint> points;
  for (const Json& value : values) {
    const SweepPoint point{field, value.is_string() ? value.get<std::string>() : value.dump()};
    Scenario copy = scenario;
    check(apply(copy, point), ErrorCode::DataLoss,
          "{}.{}: {} is not a value of size (\"WIDTHxHEIGHT\"), threads, n, steps or "
          "max_sequence_length",
          where, field, value.dump(-1, ' ', true, Json::error_handler_t::replace));
    points.push_back(point);
  }
  return points;
}

Json model_json(const ModelSource& model) {
  if (model.synthetic) {
    return {{"synthetic",
             {{"pipeline", "flux"},
              {"double", model.synthetic->doubles},
              {"single", model.synthetic->singles},
              {"t5_layers", model.synthetic->t5_layers},
              {"clip_layers", model.synthetic->clip_layers}}}};
  }
  if (!model.repository.empty()) {
    return {{"repository", model.repository}, {"revision", model.revision}};
  }
  return {{"folder", model.folder}};
}

}  // namespace

Request read_request(JsonFields& fields) {
  Request request;
  if (fields.has("component")) {
    request.component = fields.text("component");
    fields.expect(std::ranges::find(kComponents, request.component) != kComponents.end(),
                  "component", "not one of {}", fmt::join(kComponents, ", "));
  }
  request.width = fields.integer("width", 1, kMaxPixels);
  request.height = fields.integer("height", 1, kMaxPixels);
  request.max_sequence_length = fields.integer("max_sequence_length", 1, 512);
  request.n = fields.integer("n", 1, 1024);
  request.steps = fields.integer("steps", 1, 1000);
  request.dtype = artifact::read_dtype(fields, "dtype");
  fields.expect(request.dtype == DType::BF16 || request.dtype == DType::F32, "dtype",
                "not bf16 or f32");
  if (fields.has("quant")) {
    const auto quant = graph::parse_enum<graph::WeightQuant>(fields.text("quant"));
    fields.expect(quant.has_value(), "quant", "not one of {}",
                  fmt::join(graph::names(graph::WeightQuant{}), ", "));
    request.quant = *quant;
  }
  request.prompt = fields.text("prompt");
  request.guidance = read_number(fields, "guidance", 1000);
  request.seed = static_cast<std::uint64_t>(
      fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  request.threads = fields.integer("threads", 1, 1024);
  request.tp = read_tp(fields.at("plan"), fields.path("plan"));
  return request;
}

void write_request(const Request& request, Json& json) {
  if (!request.component.empty()) {
    json["component"] = request.component;
  }
  json["width"] = request.width;
  json["height"] = request.height;
  json["max_sequence_length"] = request.max_sequence_length;
  json["n"] = request.n;
  json["steps"] = request.steps;
  json["dtype"] = dtype_name(request.dtype);
  if (request.quant != graph::WeightQuant::None) {
    json["quant"] = graph::enum_name(request.quant);
  }
  json["prompt"] = request.prompt;
  json["guidance"] = request.guidance;
  json["seed"] = request.seed;
  json["threads"] = request.threads;
  json["plan"] = {{"tp", request.tp}};
}

Scenario parse_scenario(std::string_view text, std::string_view origin) {
  const Json json = parse_json(text, origin);
  JsonFields fields(json, std::string(origin));
  Scenario scenario;
  scenario.name = fields.text("name");
  const bool plain = !scenario.name.empty() && scenario.name.size() <= 64 &&
                     std::ranges::all_of(scenario.name, [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                     });
  fields.expect(plain, "name", "not 1 ... 64 of a-z, 0-9 and -");
  scenario.about = fields.has("about") ? fields.text("about") : "";
  scenario.model = read_model(fields.at("model"), fields.path("model"));
  static_cast<Request&>(scenario) = read_request(fields);
  if (fields.has("sweep")) {
    scenario.sweep = read_sweep(fields.at("sweep"), fields.path("sweep"), scenario);
  }
  fields.done();
  return scenario;
}

Json scenario_json(const Scenario& scenario) {
  Json json{{"name", scenario.name}, {"about", scenario.about}};
  json["model"] = model_json(scenario.model);
  write_request(scenario, json);
  return json;
}

std::string scenario_digest(const Scenario& scenario) {
  Json json = scenario_json(scenario);
  json.erase("about");
  return sha256_hex(json.dump(-1, ' ', false, Json::error_handler_t::replace)).substr(0, 16);
}

std::vector<Scenario> expand(const Scenario& scenario, const std::vector<std::int64_t>& threads) {
  std::vector<Scenario> points;
  Scenario base = scenario;
  base.sweep.clear();
  for (const SweepPoint& point : scenario.sweep) {
    points.push_back(base);
    require(apply(points.back(), point), "a sweep that was not checked");
    points.back().point = point;
  }
  if (points.empty()) {
    points.push_back(base);
  }
  const bool sweeps_threads = !scenario.sweep.empty() && scenario.sweep.front().field == "threads";
  if (threads.empty() || sweeps_threads) {
    return points;
  }
  std::vector<Scenario> all;
  for (const std::int64_t count : threads) {
    for (Scenario one : points) {
      one.threads = count;
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::int64_t image_tokens(const Scenario& scenario) {
  return (scenario.width / 16) * (scenario.height / 16);
}

std::string describe(const Scenario& scenario) {
  std::string text = scenario.component.empty() ? "pipeline" : scenario.component;
  const bool encoder = scenario.component.starts_with("text_encoder");
  if (!encoder) {
    text += fmt::format(", {}x{}", scenario.width, scenario.height);
  }
  if (scenario.n > 1) {
    text += fmt::format(", n {}", scenario.n);
  }
  if (scenario.component.empty()) {
    text += fmt::format(", {} step{}", scenario.steps, scenario.steps == 1 ? "" : "s");
  }
  text += fmt::format(", {}", dtype_name(scenario.dtype));
  if (scenario.quant != graph::WeightQuant::None) {
    text += fmt::format(" {}", graph::enum_name(scenario.quant));
  }
  return fmt::format("{}, {} thread{}", text, scenario.threads, scenario.threads == 1 ? "" : "s");
}

}  // namespace difflet::bench
