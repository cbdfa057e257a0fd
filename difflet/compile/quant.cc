#include "difflet/compile/quant.h"

#include <algorithm>
#include <set>
#include <utility>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/base/split.h"
#include "difflet/graph/enum_names.h"

namespace difflet::compile {
namespace {

constexpr std::string_view kMethod = "difflet";
constexpr std::int64_t kFormat = 1;
constexpr std::string_view kSmoothed = "w8a8+smooth";
constexpr std::string_view kAsked = "--quant-groups";  // why a layer is kept: the request says so

// Whether all of `text` is `pattern`, where * is any run of characters, none too.
bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t after = 0;  // where the last star's run ends for now
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// The rule for a weight, or null.
const models::QuantRule* rule_of(std::span<const models::QuantRule> rules,
                                 std::string_view weight) {
  const auto rule = std::ranges::find_if(
      rules, [&](const models::QuantRule& r) { return matches_glob(r.pattern, weight); });
  return rule == rules.end() ? nullptr : &*rule;
}

bool is_matrix(const io::Checkpoint& checkpoint, const std::string& name) {
  const io::TensorEntry& entry = checkpoint.entry(name);
  return is_float(entry.dtype) && entry.shape.rank() == 2;
}

bool is_glob(std::string_view key) { return key.find('*') != std::string_view::npos; }

bool means(std::string_view key, std::string_view weight, const QuantLayer& layer) {
  if (key == weight || key == layer.group) {
    return true;
  }
  return is_glob(key) && !layer.only_named &&
         (matches_glob(key, weight) || matches_glob(key, layer.group));
}

// How closely a key that means this layer names it: weight, glob by length, group.
std::size_t closeness(std::string_view key, std::string_view weight) {
  if (key == weight) {
    return static_cast<std::size_t>(-1);
  }
  return is_glob(key) ? key.size() : 0;
}

// What --quant-groups say of this layer, by the closest name; null: nothing.
const std::pair<const std::string, WeightQuant>* named(const QuantRequest& request,
                                                       std::string_view weight,
                                                       const QuantLayer& layer) {
  const std::pair<const std::string, WeightQuant>* closest = nullptr;
  std::size_t best = 0;
  for (const auto& group : request.groups) {
    if (means(group.first, weight, layer) && closeness(group.first, weight) >= best) {
      best = closeness(group.first, weight);
      closest = &group;
    }
  }
  check(closest == nullptr || !layer.only_named || closest->second != WeightQuant::W8A8,
        ErrorCode::InvalidArgument, "--quant-groups: {} ('{}') takes w8a16 or none", layer.group,
        weight);
  return closest;
}

WeightQuant mode_of(const QuantRequest& request, std::string_view weight, const QuantLayer& layer) {
  if (const auto* group = named(request, weight, layer)) {
    return group->second;
  }
  return layer.only_named ? WeightQuant::None : request.mode.value_or(WeightQuant::None);
}

// Whether a stored layer is what a request for `mode` has made: one that was measured and kept was asked
// for as well.
bool is_stored_as(const QuantLayer& layer, WeightQuant mode) {
  const bool measured =
      layer.mode == WeightQuant::None && !layer.kept.empty() && layer.kept != kAsked;
  return mode == layer.mode || measured;
}

// Throws InvalidArgument when the request asks for something else than is stored.
void check_stored(const ComponentQuant& stored, const QuantRequest& request,
                  const std::string& origin) {
  const std::string label = stored.plan().empty() ? "floats" : stored.label();
  bool same = true;  // layer by layer
  for (const auto& [weight, layer] : stored.layers) {
    const auto* group = named(request, weight, layer);
    check(group == nullptr || is_stored_as(layer, group->second), ErrorCode::InvalidArgument,
          "{}: the weights are stored as {} ('{}' as {}), so that --quant-groups '{}={}' cannot "
          "change them",
          origin, label, weight, graph::enum_name(layer.mode), group == nullptr ? "" : group->first,
          graph::enum_name(group == nullptr ? WeightQuant::None : group->second));
    same = same && is_stored_as(layer, mode_of(request, weight, layer));
  }
  check(!request.mode || *request.mode == stored.mode || same, ErrorCode::InvalidArgument,
        "{}: the weights are stored as {}, --quant {} takes the float checkpoint that they were "
        "made from",
        origin, label, graph::enum_name(request.mode.value_or(WeightQuant::None)));
}

std::string mode_names() {
  const auto names = graph::names(WeightQuant{});
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view layer_text(const QuantLayer& layer) {
  return layer.smooth ? kSmoothed : graph::enum_name(layer.mode);
}

// Every group of the subjects, in the order of their rules.
std::vector<std::string_view> groups_of(std::span<const QuantSubject> subjects) {
  std::vector<std::string_view> groups;
  for (const QuantSubject& subject : subjects) {
    for (const models::QuantRule& rule : subject.model->quant_rules()) {
      if (std::ranges::find(groups, rule.group) == groups.end()) {
        groups.push_back(rule.group);
      }
    }
  }
  return groups;
}

bool means_any(std::string_view key, const ComponentQuant& quant) {
  return std::ranges::any_of(quant.layers,
                             [&](const auto& l) { return means(key, l.first, l.second); });
}

void check_key(std::span<const QuantSubject> subjects, const std::string& key) {
  if (std::ranges::any_of(subjects,
                          [&](const QuantSubject& s) { return means_any(key, *s.quant); })) {
    return;
  }
  const std::vector<std::string_view> known = groups_of(subjects);
  check(std::ranges::find(known, key) == known.end(), ErrorCode::InvalidArgument,
        "--quant-groups: there are no layers of '{}' in this model", key);
  const std::string groups = fmt::format("{}", fmt::join(known, ", "));
  for (const QuantSubject& subject : subjects) {
    for (const std::string& name : subject.checkpoint->names()) {
      check(subject.model->ignores(name) || !means(key, name, {}), ErrorCode::InvalidArgument,
            "--quant-groups: '{}' means no layer that is quantised, but '{}' of {}; norms, "
            "embedders and last layers keep their floats, so does modulation unless the group or a "
            "weight is named in full; the groups are {}",
            key, name, subject.class_name, groups);
    }
  }
  fail(ErrorCode::InvalidArgument,
       "--quant-groups: '{}' is neither a group nor the name of a weight; the groups are {}", key,
       groups);
}

}  // namespace

bool QuantRequest::quantises() const {
  return mode.value_or(WeightQuant::None) != WeightQuant::None ||
         std::ranges::any_of(groups, [](const auto& g) { return g.second != WeightQuant::None; });
}

WeightQuant parse_weight_quant(std::string_view text) {
  const auto mode = graph::parse_enum<WeightQuant>(text);
  check(mode.has_value(), ErrorCode::InvalidArgument,
        "'{}' is no mode of quantisation; these are {}", text, mode_names());
  return *mode;
}

QuantRequest parse_quant_request(const std::optional<std::string>& mode,
                                 const std::optional<std::string>& groups) {
  QuantRequest request;
  if (mode) {
    request.mode = parse_weight_quant(*mode);
  }
  if (!groups) {
    return request;
  }
  for (const std::string_view part : split(*groups, ',')) {
    const std::size_t equals = part.find('=');
    check(equals != std::string_view::npos && equals > 0, ErrorCode::InvalidArgument,
          "--quant-groups: '{}' is not GROUP=MODE", part);
    const std::string key(part.substr(0, equals));
    check(request.groups.emplace(key, parse_weight_quant(part.substr(equals + 1))).second,
          ErrorCode::InvalidArgument, "--quant-groups: '{}' is there twice", key);
  }
  return request;
}

LinearQuantPlan ComponentQuant::plan() const {
  LinearQuantPlan plan;
  for (const auto& [weight, layer] : layers) {
    if (layer.mode != WeightQuant::None) {
      plan.emplace(weight, graph::passes::LinearQuant{.mode = layer.mode, .smooth = layer.smooth});
    }
  }
  return plan;
}

std::string ComponentQuant::label() const {
  std::map<std::string, std::set<std::string_view>> modes;
  bool any = false;
  bool smoothed = false;
  bool plain = false;  // a w8a8 layer that is not smoothed
  for (const auto& [weight, layer] : layers) {
    if (layer.only_named && layer.mode == WeightQuant::None) {
      continue;
    }
    modes[layer.group].insert(layer_text(layer));
    any = any || layer.mode != WeightQuant::None;
    smoothed = smoothed || layer.smooth;
    plain = plain || (layer.mode == WeightQuant::W8A8 && !layer.smooth);
  }
  if (!any) {
    return "";
  }
  const std::string_view usual =
      mode == WeightQuant::W8A8 && smoothed && !plain ? kSmoothed : graph::enum_name(mode);
  std::string label(usual);
  for (const auto& [group, found] : modes) {
    if (found.size() > 1 || *found.begin() != usual) {
      label += fmt::format(",{}={}", group, found.size() > 1 ? "mixed" : *found.begin());
    }
  }
  return label;
}

ComponentQuant float_layers(const models::Component& model, const io::Checkpoint& checkpoint) {
  ComponentQuant quant;
  const std::vector<models::QuantRule> rules = model.quant_rules();
  if (rules.empty()) {
    return quant;
  }
  for (const std::string& name : checkpoint.names()) {
    const models::QuantRule* rule = rule_of(rules, name);
    if (rule != nullptr && !model.ignores(name) && is_matrix(checkpoint, name)) {
      quant.layers.emplace(
          name, QuantLayer{.group = std::string(rule->group), .only_named = rule->only_named});
    }
  }
  return quant;
}

ComponentQuant requested_layers(const ComponentQuant& layers, const QuantRequest& request,
                                const std::string& origin) {
  ComponentQuant quant = layers;
  if (layers.stored) {
    check_stored(layers, request, origin);
    return quant;
  }
  quant.mode = request.mode.value_or(WeightQuant::None);
  for (auto& [weight, layer] : quant.layers) {
    layer.mode = mode_of(request, weight, layer);
    const bool refrained = layer.mode == WeightQuant::None && quant.mode != WeightQuant::None;
    layer.kept = refrained && !layer.only_named ? kAsked : "";
  }
  return quant;
}

void check_quant_request(std::span<const QuantSubject> subjects, const QuantRequest& request) {
  if (request.quantises() && groups_of(subjects).empty()) {
    std::vector<std::string_view> classes;
    classes.reserve(subjects.size());
    for (const QuantSubject& subject : subjects) {
      classes.push_back(subject.class_name);
    }
    fail(ErrorCode::InvalidArgument, "--quant: {} has no layers that can be quantised",
         fmt::format("{}", fmt::join(classes, ", ")));
  }
  for (const auto& [key, mode] : request.groups) {
    check_key(subjects, key);
  }
}

namespace {

// The mode that a folder is said to have: what was asked for if a layer has it; with a mode of its own
// for every layer, "*=w8a8", that of most.
WeightQuant stored_mode(const ComponentQuant& quant) {
  std::map<WeightQuant, std::size_t> counts;
  for (const auto& [weight, layer] : quant.layers) {
    if (layer.mode != WeightQuant::None) {
      ++counts[layer.mode];
    }
  }
  if (quant.mode == WeightQuant::None || counts.empty() || counts.contains(quant.mode)) {
    return quant.mode;
  }
  return std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
}

}  // namespace

Json quant_config(const ComponentQuant& quant) {
  Json layers = Json::object();
  Json kept = Json::object();
  for (const auto& [weight, layer] : quant.layers) {
    if (layer.mode != WeightQuant::None) {
      layers[weight] = layer_text(layer);
    } else if (!layer.kept.empty()) {
      kept[weight] = layer.kept;
    }
  }
  return {{"quant_method", kMethod},
          {"format", kFormat},
          {"mode", graph::enum_name(stored_mode(quant))},
          {"layers", std::move(layers)},
          {"kept", std::move(kept)}};
}

namespace {

QuantLayer read_layer(const Json& value, const std::string& where) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text == kSmoothed) {
    return {.group = {}, .mode = WeightQuant::W8A8, .smooth = true, .kept = {}};
  }
  const auto mode = graph::parse_enum<WeightQuant>(text);
  check(mode && *mode != WeightQuant::None, ErrorCode::DataLoss,
        "{}: {} is none of w8a16, w8a8, {}", where, value.dump(), kSmoothed);
  return {.group = {}, .mode = *mode, .smooth = false, .kept = {}};
}

QuantLayer read_kept(const Json& value, const std::string& where) {
  check(value.is_string(), ErrorCode::DataLoss, "{}: {} is no text", where, value.dump());
  return {.group = {}, .kept = value.get<std::string>()};
}

// The members of object `key`, each read by `read` and put into its group.
void read_layers(artifact::JsonFields& fields, const std::string& key,
                 std::span<const models::QuantRule> rules,
                 QuantLayer (*read)(const Json&, const std::string&), ComponentQuant& quant) {
  const Json& object = fields.at(key);
  fields.expect(object.is_object(), key, "not an object");
  for (const auto& item : object.items()) {
    const std::string where = fields.path(key + "." + item.key());
    QuantLayer layer = read(item.value(), where);
    const models::QuantRule* rule = rule_of(rules, item.key());
    check(rule != nullptr, ErrorCode::DataLoss, "{}: no layer that this model quantises", where);
    layer.group = rule->group;
    layer.only_named = rule->only_named;
    check(quant.layers.emplace(item.key(), std::move(layer)).second, ErrorCode::DataLoss,
          "{}: named as quantised and as kept", where);
  }
}

}  // namespace

std::optional<ComponentQuant> read_quant_config(const Json& config, const std::string& origin,
                                                const models::Component& model) {
  const auto found = config.is_object() ? config.find(kQuantConfigField) : config.end();
  if (!config.is_object() || found == config.end()) {
    return std::nullopt;
  }
  artifact::JsonFields fields(*found, origin + ": " + kQuantConfigField);
  const std::string method = fields.text("quant_method");
  check(method == kMethod, ErrorCode::Unsupported,
        "{}: weights quantised by '{}' cannot be read, only those of difflet quantize",
        fields.path("quant_method"), method);
  const std::int64_t format = fields.integer("format", 1, 1 << 20);
  check(format == kFormat, ErrorCode::Unsupported, "{}: {}, this version knows {}",
        fields.path("format"), format, kFormat);
  ComponentQuant quant;
  quant.stored = true;
  const std::string mode = fields.text("mode");
  const auto parsed = graph::parse_enum<WeightQuant>(mode);
  fields.expect(parsed.has_value(), "mode", "'{}' is none of {}", mode, mode_names());
  quant.mode = *parsed;
  const std::vector<models::QuantRule> rules = model.quant_rules();
  read_layers(fields, "layers", rules, read_layer, quant);
  read_layers(fields, "kept", rules, read_kept, quant);
  fields.done();
  fields.expect(quant.mode == stored_mode(quant), "mode", "'{}', but no layer has it", mode);
  return quant;
}

void add_float_layers(ComponentQuant& quant, const models::Component& model,
                      const io::Checkpoint& checkpoint) {
  for (auto& [weight, layer] : float_layers(model, checkpoint).layers) {
    quant.layers.emplace(weight, std::move(layer));
  }
}

}  // namespace difflet::compile
