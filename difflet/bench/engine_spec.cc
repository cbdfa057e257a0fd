#include "difflet/bench/engine_spec.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "difflet/base/error.h"
#include "difflet/base/options.h"
#include "difflet/base/split.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

// Words that stand for an option of adapters.
struct Word {
  std::string_view word, key, value;
};
constexpr std::array kWords{
    Word{"compile", "compile", "blocks"},
    Word{"huge", "malloc", "huge"},
    Word{"w8a8", "quant", "w8a8"},
    Word{"w8a16", "quant", "w8a16"},
    Word{"f32", "dtype", "f32"},
    Word{"float", "quant", "none"},
    Word{"modulation", "group.modulation", "w8a16"},
    Word{"bf16", "dtype", "bf16"},
    Word{"pack", "artifact", "off"},
    Word{"map", "weights", "map"},
    Word{"copy", "weights", "copy"},
};

bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

void add_option(Json& options, std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto* const word = std::ranges::find(kWords, text, &Word::word);
  std::string key(text.substr(0, equals));
  Json value = true;
  if (equals != std::string_view::npos) {
    value = text.substr(equals + 1);
  } else if (word != kWords.end()) {
    key = word->key;
    value = word->value;
  }
  Json& given = options[key];
  check(given.is_null() || given == value, ErrorCode::InvalidArgument,
        "--engines: '{}' contradicts the option before it that says {} = {}", text, key,
        given.dump());
  given = value;
}

}  // namespace

EngineSpec parse_engine(std::string_view text) {
  EngineSpec engine{.name = std::string(text), .program = {}};
  const std::size_t colon = std::min(text.find(':'), text.size());
  engine.program = text.substr(0, colon);
  bool good = is_plain(engine.program);
  if (colon < text.size()) {
    for (const std::string_view option : split(text.substr(colon + 1), '+')) {
      const std::size_t equals = std::min(option.find('='), option.size());
      good = good && is_plain(option.substr(0, equals)) &&
             (equals == option.size() || is_plain(option.substr(equals + 1)));
      if (good) {
        add_option(engine.options, option);
      }
    }
  }
  check(good, ErrorCode::InvalidArgument,
        "--engines: '{}' is not NAME or NAME:OPTION[+OPTION ...] (diffusers:compile+huge)", text);
  return engine;
}

std::vector<EngineSpec> parse_engines(std::string_view text) {
  std::vector<EngineSpec> engines;
  std::set<std::string> names;
  for (const std::string_view one : split(text, ',')) {
    engines.push_back(parse_engine(one));
    check(names.insert(engines.back().name).second, ErrorCode::InvalidArgument,
          "--engines: {} is there twice", one);
  }
  return engines;
}

std::map<std::string, std::string> parse_binaries(std::string_view text) {
  std::map<std::string, std::string> binaries;
  for (const std::string_view one : split(text, ',')) {
    const std::size_t equals = one.find('=');
    const bool named = equals != std::string_view::npos;
    const std::string name(named ? one.substr(0, equals) : "");
    const std::string path(named ? one.substr(equals + 1) : one);
    check((!named || is_plain(name)) && !path.empty(), ErrorCode::InvalidArgument,
          "--sdcpp: '{}' is not PATH or NAME=PATH", one);
    check(binaries.emplace(name, fs::absolute(path).string()).second, ErrorCode::InvalidArgument,
          "--sdcpp: '{}' is there twice", one);
  }
  return binaries;
}

std::vector<std::string> known_programs(const EnginePlaces& places) {
  std::set<std::string> names{"difflet"};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(places.adapters, error)) {
    const fs::path& path = entry.path();
    const bool script = path.extension() == ".py" && path.stem() != "protocol" &&
                        !path.stem().string().starts_with("_");
    const bool program = path.extension().empty() && entry.is_regular_file(error) &&
                         ::access(path.c_str(), X_OK) == 0;
    if (script || program) {
      names.insert(path.stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> engine_command(EngineSpec& engine, const EnginePlaces& places) {
  if (engine.program == "difflet") {
    return {places.difflet.string(), "bench", "worker"};
  }
  const std::vector<std::string> known = known_programs(places);
  if (std::ranges::find(known, engine.program) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    const auto near = nearest_name(engine.program, names);
    fail(ErrorCode::InvalidArgument, "--engines: no engine '{}' (adapters in '{}'): there are {}{}",
         engine.program, places.adapters.string(), fmt::join(known, ", "),
         near ? fmt::format("; did you mean {}?", *near) : "");
  }
  if (engine.program == "sdcpp") {
    const std::size_t colon = std::min(engine.name.find(':'), engine.name.size());
    const std::string variant =
        colon < engine.name.size() ? engine.name.substr(colon + 1) : std::string();
    const auto found = places.binaries.find(variant);
    check(found != places.binaries.end(), ErrorCode::InvalidArgument,
          "--engines: {} needs its program: --sdcpp {}PATH", engine.name,
          variant.empty() ? "" : variant + "=");
    engine.options = {{"binary", found->second}};
  }
  const fs::path script = places.adapters / (engine.program + ".py");
  std::error_code error;
  if (fs::exists(script, error)) {
    return {places.python, script.string()};
  }
  return {(places.adapters / engine.program).string()};
}

}  // namespace difflet::bench
