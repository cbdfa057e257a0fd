#include "difflet/bench/result.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

using artifact::JsonFields;

constexpr std::string_view kSchema = "difflet-bench-1";
constexpr std::size_t kMaxPoints = 10000;
constexpr std::size_t kMaxEngines = 1000;
constexpr std::size_t kMaxSamples = 1000000;

constexpr std::array kStatusNames{"ok", "unavailable", "failed"};

Json metrics_json(const std::map<std::string, Series>& metrics) {
  Json json = Json::object();
  for (const auto& [name, series] : metrics) {
    json[name] = {{"wall_s", series.wall_s}, {"cpu_s", series.cpu_s}};
  }
  return json;
}

Json engine_json(const EngineEntry& engine) {
  Json json{{"engine", engine.engine}, {"status", status_name(engine.status)}};
  json["message"] = engine.message;
  json["hello"] = engine.hello;
  json["metrics"] = metrics_json(engine.metrics);
  json["memory"] = engine.memory;
  json["peak_rss_bytes"] = engine.peak_bytes;
  json["ready_rss_bytes"] = engine.ready_bytes;
  json["outputs"] = engine.outputs;
  json["ceiling_gflops"] = Json::object();
  for (const auto& [arithmetic, samples] : engine.ceilings) {
    json["ceiling_gflops"][std::string(arithmetic_name(arithmetic))] = samples;
  }
  json["profile"] = engine.profile;
  json["requests"] = engine.raw;
  return json;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json ratio_json(const RatioEntry& r) {
  return {{"engine", r.engine},  {"baseline", r.baseline}, {"metric", r.metric},
          {"pairs", r.pairs},    {"ratio", r.ratio.value}, {"low", r.ratio.low},
          {"high", r.ratio.high}};
}

Json difference_json(const OutputDifference& d) {
  return {{"engine", d.engine},        {"baseline", d.baseline},
          {"output", d.output},        {"cosine", number(d.cosine)},
          {"psnr_db", number(d.psnr)}, {"relative", number(d.relative)},
          {"problem", d.problem}};
}

template <typename T, typename F>
Json list_json(const std::vector<T>& values, const F& one) {
  Json list = Json::array();
  for (const T& value : values) {
    list.push_back(one(value));
  }
  return list;
}

Json point_json(const PointEntry& point) {
  Json json{{"scenario", scenario_json(point.scenario)},
            {"digest", scenario_digest(point.scenario)}};
  if (point.scenario.point) {
    json["sweep"] = {{"field", point.scenario.point->field},
                     {"value", point.scenario.point->value}};
  }
  json["load_average"] = {{"before", point.load_before}, {"after", point.load_after}};
  json["others_share"] = point.others_share ? Json(*point.others_share) : Json();
  json["quiet"] = point.others_share ? Json(*point.others_share < kQuietShare) : Json();
  json["notes"] = point.notes;
  json["engines"] = list_json(point.engines, engine_json);
  json["ratios"] = list_json(point.ratios, ratio_json);
  json["differences"] = list_json(point.differences, difference_json);
  return json;
}

std::vector<double> read_samples(JsonFields& fields, const std::string& key) {
  std::vector<double> samples;
  for (const Json& value : fields.list(key, kMaxSamples)) {
    const double v = value.is_number() ? value.get<double>() : -1;
    fields.expect(v >= 0 && v < 1e12, key, "holds what is no number of seconds");
    samples.push_back(v);
  }
  return samples;
}

EngineEntry read_engine(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  EngineEntry engine;
  engine.engine = fields.text("engine");
  const std::string status = fields.text("status");
  const auto* const found = std::ranges::find(kStatusNames, status);
  fields.expect(found != kStatusNames.end(), "status", "not ok, unavailable or failed");
  engine.status = static_cast<EngineStatus>(found - kStatusNames.begin());
  engine.message = fields.text("message");
  engine.peak_bytes = fields.bytes("peak_rss_bytes");
  engine.ready_bytes = fields.bytes("ready_rss_bytes");
  const Json& metrics = fields.at("metrics");
  fields.expect(metrics.is_object(), "metrics", "not an object");
  for (const auto& item : metrics.items()) {
    JsonFields series(item.value(), fields.path("metrics." + item.key()));
    engine.metrics[item.key()] = {read_samples(series, "wall_s"), read_samples(series, "cpu_s")};
  }
  return engine;
}

PointEntry read_point(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  PointEntry point;
  const Json& scenario = fields.at("scenario");
  fields.expect(scenario.is_object(), "scenario", "not an object");
  point.scenario = parse_scenario(scenario.dump(-1, ' ', false, Json::error_handler_t::replace),
                                  fields.path("scenario"));
  if (fields.has("sweep")) {
    JsonFields sweep(fields.at("sweep"), fields.path("sweep"));
    point.scenario.point = SweepPoint{sweep.text("field"), sweep.text("value")};
  }
  std::size_t index = 0;
  for (const Json& engine : fields.list("engines", kMaxEngines)) {
    point.engines.push_back(
        read_engine(engine, fmt::format("{}[{}]", fields.path("engines"), index++)));
  }
  return point;
}

}  // namespace

std::string_view status_name(EngineStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

Json result_json(const ResultFile& result) {
  return {{"schema", kSchema},
          {"started", result.started},
          {"machine", result.machine},
          {"points", list_json(result.points, point_json)}};
}

ResultFile parse_result(std::string_view text, std::string_view origin) {
  const Json json = parse_json(text, origin);
  JsonFields fields(json, std::string(origin));
  fields.expect(fields.text("schema") == kSchema, "schema", "not {}", kSchema);
  ResultFile result;
  result.started = fields.text("started");
  result.machine = fields.at("machine");
  fields.expect(result.machine.is_object(), "machine", "not an object");
  std::size_t index = 0;
  for (const Json& point : fields.list("points", kMaxPoints)) {
    result.points.push_back(
        read_point(point, fmt::format("{}[{}]", fields.path("points"), index++)));
  }
  return result;
}

}  // namespace difflet::bench
