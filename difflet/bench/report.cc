#include "difflet/bench/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "difflet/base/units.h"
#include "difflet/bench/metrics.h"

namespace difflet::bench {
namespace {

const RatioEntry* find_ratio(const PointEntry& point, const std::string& engine,
                             std::string_view metric) {
  const auto found = std::ranges::find_if(
      point.ratios, [&](const RatioEntry& r) { return r.engine == engine && r.metric == metric; });
  return found == point.ratios.end() ? nullptr : &*found;
}

// Three digits.
std::string short_number(double value) {
  return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

std::string ratio_text(const RatioEntry* ratio) {
  return ratio == nullptr
             ? "-"
             : fmt::format("{} [{} {}]", short_number(ratio->ratio.value),
                           short_number(ratio->ratio.low), short_number(ratio->ratio.high));
}

// "216 ms (214..219)", all in the unit of the median.
std::string spread_text(const Summary& s) {
  const double scale = s.median >= 1 ? 1 : 1e3;
  return fmt::format("{} ({}..{})", short_seconds(s.median), short_number(s.minimum * scale),
                     short_number(s.maximum * scale));
}

std::string memory_text(std::size_t bytes) { return bytes == 0 ? "-" : readable_bytes(bytes); }

double weight_bytes(const EngineEntry& engine) {
  return engine.memory.is_object() ? engine.memory.value("weight_bytes", 0.0) : 0;
}

// "weights 1.29 GB (0.52 of difflet's), activations 94.4 MB", as an engine planned it.
std::string memory_line(const PointEntry& point, const EngineEntry& engine) {
  std::vector<std::string> parts;
  for (const auto& [key, name] :
       {std::pair("weight_bytes", "weights"), std::pair("activation_bytes", "activations"),
        std::pair("scratch_bytes", "working memory")}) {
    if (engine.memory.is_object() && engine.memory.contains(key)) {
      parts.push_back(
          fmt::format("{} {}", name, readable_bytes(engine.memory[key].get<std::size_t>())));
    }
  }
  const EngineEntry& first = point.engines.front();
  if (&first != &engine && weight_bytes(engine) > 0 && weight_bytes(first) > 0) {
    parts.front() +=
        fmt::format(" ({:.3f} of {}'s)", weight_bytes(engine) / weight_bytes(first), first.engine);
  }
  return parts.empty() ? "" : fmt::format("    {}\n", fmt::join(parts, ", "));
}

// Whether all outputs are finite, and their range.
std::string outputs_text(const Json& outputs) {
  std::vector<std::string> texts;
  for (const Json& output : outputs) {
    const auto name = output["name"].get<std::string>();
    if (!output["finite"].get<bool>() || !output["min"].is_number() || !output["max"].is_number()) {
      texts.push_back(fmt::format("{} NOT FINITE", name));
      continue;
    }
    std::vector<std::string> extents;
    for (const Json& extent : output["shape"]) {
      extents.push_back(extent.dump());
    }
    texts.push_back(fmt::format("{} [{}] {:.3g} ... {:.3g}", name, fmt::join(extents, ","),
                                output["min"].get<double>(), output["max"].get<double>()));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string engine_line(const PointEntry& point, const EngineEntry& engine) {
  const auto found = engine.metrics.find("main");
  if (found == engine.metrics.end() || found->second.wall_s.empty()) {
    return fmt::format("  {:<26} {}: {}\n", engine.engine, status_name(engine.status),
                       engine.message);
  }
  const Summary wall = summarize(found->second.wall_s);
  return fmt::format("  {:<24} {:<22} {:<8} {:<16} {:<16} {}\n", engine.engine, spread_text(wall),
                     short_seconds(median(found->second.cpu_s)),
                     ratio_text(find_ratio(point, engine.engine, "wall")),
                     ratio_text(find_ratio(point, engine.engine, "cpu")),
                     memory_text(engine.peak_bytes));
}

// The medians of what an engine does besides the main thing.
std::string rest_line(const EngineEntry& engine) {
  constexpr std::array kOrder{"compile", "load",    "ready",  "cold", "warm",
                              "encode",  "denoise", "decode", "step", "run"};
  std::vector<std::string> parts;
  for (const char* name : kOrder) {
    const auto found = engine.metrics.find(name);
    if (found != engine.metrics.end() && !found->second.wall_s.empty()) {
      parts.push_back(fmt::format("{} {}", name, short_seconds(median(found->second.wall_s))));
    }
  }
  std::string text;
  std::string line = fmt::format("  {:<24} ", engine.engine);
  for (const std::string& part : parts) {
    if (line.size() + part.size() + 2 > 100) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = std::string(27, ' ');
    }
    line += part + "  ";
  }
  return text + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

Rates medians(const std::map<Arithmetic, std::vector<double>>& ceilings) {
  Rates rates;
  for (const auto& [arithmetic, samples] : ceilings) {
    rates[arithmetic] = median(samples);
  }
  return rates;
}

// "linear 95.1 %, attention 88.0 %": of the time of these kernels' steps.
std::string kinds_text(const PointEntry& point, const EngineEntry& engine, const Rates& ceilings) {
  struct Kind {
    const char *name, *prefix, *suffix;
  };
  constexpr std::array kKinds{
      Kind{"linear f32", "linear", ".f32"},     Kind{"linear bf16", "linear", ".bf16"},
      Kind{"linear w8a16", "linear", ".w8a16"}, Kind{"linear w8a8", "linear", ".w8a8"},
      Kind{"attention", "attention", ""},       Kind{"conv", "conv", ""}};
  std::vector<std::string> kinds;
  for (const Kind& kind : kKinds) {
    const Share share =
        share_of(engine.profile, kind.prefix, kind.suffix, level_of(engine.hello), ceilings);
    if (share.flops > 0 && share.seconds > 0) {
      const double spent = share.seconds * static_cast<double>(point.scenario.threads);
      kinds.push_back(fmt::format("{} {:.1f} %", kind.name, share.least_s / spent * 100));
    }
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

// How near the products come to what the cores compute at most, each kind at its own ceiling.
std::string share_line(const PointEntry& point, const EngineEntry& engine) {
  const auto main = engine.metrics.find("main");
  if (engine.ceilings.empty() || main == engine.metrics.end() || main->second.cpu_s.empty()) {
    return "";
  }
  const Rates ceilings = medians(engine.ceilings);
  const Share all = share_of(engine.profile, "", "", level_of(engine.hello), ceilings);
  if (all.flops <= 0) {
    return "";
  }
  const auto of = [&](double seconds) -> std::string {
    return seconds > 0 ? fmt::format("{:.1f} %", all.least_s / seconds * 100) : "too short to say";
  };
  const auto threads = static_cast<double>(point.scenario.threads);
  std::string text = fmt::format(
      "  {:<24} {:.1f} GFLOP at {} of the ceiling by CPU time, {} by wall\n", engine.engine,
      all.flops / 1e9, of(median(main->second.cpu_s)), of(median(main->second.wall_s) * threads));
  std::vector<std::string> rates;
  for (const auto& [arithmetic, rate] : ceilings) {
    rates.push_back(fmt::format("{} {:.1f}", arithmetic_name(arithmetic), rate));
  }
  text += fmt::format("    ceilings in GFLOP/s a thread: {}\n", fmt::join(rates, ", "));
  return text + fmt::format("    {}\n", kinds_text(point, engine, ceilings));
}

std::string quiet_text(const PointEntry& point) {
  if (!point.others_share) {
    return "";
  }
  return fmt::format(", {} (others took {:.0f} % of the cores)",
                     *point.others_share < kQuietShare ? "quiet" : "NOT QUIET",
                     *point.others_share * 100);
}

std::size_t rounds_of(const PointEntry& point) {
  std::size_t rounds = 0;
  for (const EngineEntry& engine : point.engines) {
    const auto found = engine.metrics.find("main");
    rounds = std::max(rounds, found == engine.metrics.end() ? 0 : found->second.wall_s.size());
  }
  return rounds;
}

std::string differences_text(const PointEntry& point) {
  std::string text;
  for (const OutputDifference& d : point.differences) {
    text +=
        d.problem.empty()
            ? fmt::format("  {} against {}: {}: cosine {:.6f}, PSNR {:.1f} dB, relative {:.2e}\n",
                          d.engine, d.baseline, d.output, d.cosine, d.psnr, d.relative)
            : fmt::format("  {} against {}: {}: {}\n", d.engine, d.baseline, d.output, d.problem);
  }
  return text;
}

// Units of a point of a sweep, and what one is called.
struct Units {
  double count = 1;
  std::string_view name;
};

Units units_of(const Scenario& s) {
  const std::string& field = s.point->field;
  if (field == "size" && s.component == "vae") {
    return {static_cast<double>(s.width * s.height) / 1e6, "megapixel"};
  }
  if (field == "size") {
    const auto text = s.component == "transformer" ? s.max_sequence_length : 0;
    return {static_cast<double>((image_tokens(s) + text) * s.n), "token"};
  }
  if (field == "max_sequence_length") {
    return {static_cast<double>(s.max_sequence_length), "token"};
  }
  if (field == "n") {
    return {static_cast<double>(s.n), "picture"};
  }
  return {1, field == "steps" ? "step" : "request"};
}

}  // namespace

std::string short_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 100) {
    return fmt::format("{:.0f} s", seconds);
  }
  if (size >= 1) {
    return fmt::format("{:.{}f} s", seconds, size >= 10 ? 1 : 2);
  }
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f} ms", ms, size >= 0.1 ? 0 : size >= 0.01 ? 1 : 2);
}

std::string point_report(const PointEntry& point) {
  std::string text = fmt::format("{}: {}\n", point.scenario.name, describe(point.scenario));
  text += fmt::format("  {} requests each, in turns{}\n", rounds_of(point), quiet_text(point));
  for (const std::string& note : point.notes) {
    text += fmt::format("  note: {}\n", note);
  }
  text += fmt::format("  {:<24} {:<22} {:<8} {:<16} {:<16} {}\n", "engine", "wall, median (spread)",
                      "CPU", "wall / first", "CPU / first", "peak");
  for (const EngineEntry& engine : point.engines) {
    text += engine_line(point, engine);
    const bool told = engine.status != EngineStatus::Ok && engine.metrics.contains("main");
    text += told ? fmt::format("    {}: {}\n", status_name(engine.status), engine.message) : "";
  }
  text += "  the rest, medians of wall clock\n";
  for (const EngineEntry& engine : point.engines) {
    text += engine.metrics.empty() ? "" : rest_line(engine);
    text += memory_line(point, engine);
    text += share_line(point, engine);
  }
  text += "  outputs\n";
  for (const EngineEntry& engine : point.engines) {
    text += engine.outputs.empty()
                ? ""
                : fmt::format("  {:<24} {}\n", engine.engine, outputs_text(engine.outputs));
  }
  return text + differences_text(point);
}

std::string sweep_report(const std::vector<PointEntry>& points) {
  if (points.empty() || !points.front().scenario.point) {
    return "";
  }
  const Units unit = units_of(points.front().scenario);
  std::string text =
      fmt::format("{}: cost against {}, {}\n", points.front().scenario.name,
                  points.front().scenario.point->field, describe(points.front().scenario));
  text +=
      fmt::format("  {:<24} {:<12} {:<10} {:<10} {:<15} {:<10} {}\n", "engine",
                  points.front().scenario.point->field, "wall", "CPU",
                  fmt::format("wall/{}", unit.name), "peak", fmt::format("grown/{}", unit.name));
  for (std::size_t e = 0; e < points.front().engines.size(); ++e) {
    double first_units = 0;
    double first_peak = 0;
    for (const PointEntry& point : points) {
      const EngineEntry& engine = point.engines[e];
      const auto main = engine.metrics.find("main");
      if (main == engine.metrics.end() || main->second.wall_s.empty()) {
        continue;
      }
      const double units = units_of(point.scenario).count;
      const auto peak = static_cast<double>(engine.peak_bytes);
      first_units = first_units == 0 ? units : first_units;
      first_peak = first_peak == 0 ? peak : first_peak;
      const double wall = median(main->second.wall_s);
      const bool grows = units > first_units && peak > first_peak;
      text += fmt::format("  {:<24} {:<12} {:<10} {:<10} {:<15} {:<10} {}\n", engine.engine,
                          point.scenario.point->value, short_seconds(wall),
                          short_seconds(median(main->second.cpu_s)), short_seconds(wall / units),
                          memory_text(engine.peak_bytes),
                          grows ? readable_bytes(static_cast<std::size_t>((peak - first_peak) /
                                                                          (units - first_units)))
                                : "-");
    }
  }
  return text;
}

}  // namespace difflet::bench
