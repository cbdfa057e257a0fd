#include "difflet/io/hub/selection.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/io/checkpoint.h"
#include "difflet/io/hub/protocol.h"

namespace difflet::io::hub {
namespace {

constexpr std::string_view kModelIndex = "model_index.json";

// What a component may have besides weights.
constexpr std::array<std::string_view, 13> kSettings = {"config.json",
                                                        "generation_config.json",
                                                        "scheduler_config.json",
                                                        "preprocessor_config.json",
                                                        "tokenizer.json",
                                                        "tokenizer_config.json",
                                                        "special_tokens_map.json",
                                                        "added_tokens.json",
                                                        "chat_template.jinja",
                                                        "vocab.json",
                                                        "vocab.txt",
                                                        "merges.txt",
                                                        "spiece.model"};

// Components without weights, by how the names of their classes end.
bool has_weights(std::string_view class_name) {
  constexpr std::array<std::string_view, 6> kWithout = {"Tokenizer", "TokenizerFast", "Scheduler",
                                                        "Processor", "ProcessorFast", "Extractor"};
  return std::ranges::none_of(kWithout,
                              [&](std::string_view e) { return class_name.ends_with(e); });
}

// Weights that no safetensors reader takes, and what takes their place.
bool is_other_weights(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings = {".bin",  ".pt",      ".pth", ".ckpt",
                                                        ".onnx", ".msgpack", ".h5"};
  return std::ranges::any_of(kEndings, [&](std::string_view e) { return name.ends_with(e); });
}

class Selector {
 public:
  Selector(const std::set<std::string>& paths, const Wanted& wanted, const ReadText& read,
           const std::string& origin)
      : paths_(paths), wanted_(wanted), read_(read), origin_(origin) {}

  Selection run() {
    if (has(kModelIndex)) {
      add_pipeline();
      found_.erase(std::string(kModelIndex));
    } else {
      add_component("", "");
    }
    selection_.files.assign(found_.begin(), found_.end());
    if (has(kModelIndex)) {
      selection_.files.emplace_back(kModelIndex);
    }
    return std::move(selection_);
  }

 private:
  bool has(std::string_view path) const { return paths_.contains(std::string(path)); }
  std::string named(std::string_view path) const { return fmt::format("{}: {}", origin_, path); }
  Json read_json(const std::string& path) const { return parse_json(read_(path), named(path)); }

  // name -> class of the components that the pipeline needs.
  std::map<std::string, std::string> components() const {
    const Json index = read_json(std::string(kModelIndex));
    check(index.is_object() && index.contains("_class_name") && index["_class_name"].is_string(),
          ErrorCode::DataLoss, "{}: there is no _class_name of a pipeline", named(kModelIndex));
    std::map<std::string, std::string> all;
    for (const auto& [name, value] : index.items()) {
      const bool component =
          !name.starts_with('_') && value.is_array() && value.size() == 2 && value[1].is_string();
      if (component) {
        check(is_plain_path(name) && name.find('/') == std::string::npos, ErrorCode::DataLoss,
              "{}: '{}' is not the name of a folder", named(kModelIndex), name);
        all.emplace(name, value[1].get<std::string>());
      }
    }
    const auto pipeline = index["_class_name"].get<std::string>();
    const std::vector<std::string> needed =
        wanted_.components ? wanted_.components(pipeline) : std::vector<std::string>{};
    if (!needed.empty()) {
      std::erase_if(all, [&](const auto& item) {
        return std::ranges::find(needed, item.first) == needed.end();
      });
    }
    return all;
  }

  void add_pipeline() {
    for (const auto& [name, class_name] : components()) {
      add_component(name + "/", class_name);
    }
  }

  // `prefix` is "name/", or empty for the root.
  void add_component(const std::string& prefix, const std::string& class_name) {
    const std::size_t before = found_.size();
    for (const std::string_view name : kSettings) {
      if (has(prefix + std::string(name))) {
        found_.insert(prefix + std::string(name));
      }
    }
    const bool settings = found_.size() > before;
    if (!settings) {
      selection_.missing.push_back(prefix.empty() ? "model_index.json or config.json"
                                                  : fmt::format("the settings of {}", prefix));
    }
    if (!add_weights(prefix) && has_weights(class_name) && settings) {
      selection_.missing.push_back(missing_weights(prefix));
    }
  }

  bool add_weights(const std::string& prefix) {
    for (const WeightFile& file : weight_files(wanted_.variant)) {
      const std::string path = prefix + file.name;
      if (!has(path)) {
        continue;
      }
      found_.insert(path);
      if (file.is_index) {
        add_shards(prefix, path);
      }
      return true;
    }
    return false;
  }

  void add_shards(const std::string& prefix, const std::string& index) {
    for (const auto& [tensor, shard] : parse_weight_index(read_json(index), named(index))) {
      const std::string path = prefix + shard;
      if (has(path)) {
        found_.insert(path);
      } else if (absent_.insert(path).second) {
        selection_.missing.push_back(path);
      }
    }
  }

  // With what is there instead.
  std::string missing_weights(const std::string& prefix) const {
    std::set<std::string> variants;
    std::string other;
    for (auto path = paths_.lower_bound(prefix); path != paths_.end() && path->starts_with(prefix);
         ++path) {
      const std::string name = path->substr(prefix.size());
      if (const auto variant = weight_variant(name)) {
        variants.insert(variant->empty() ? "without a variant" : "variant " + *variant);
      } else if (is_other_weights(name) && name.find('/') == std::string::npos) {
        other = name;
      }
    }
    const std::string which =
        wanted_.variant.empty() ? "" : fmt::format(" of variant {}", wanted_.variant);
    const std::string where = prefix.empty() ? "" : fmt::format(" of {}", prefix);
    if (!variants.empty()) {
      return fmt::format("the weights{}{} (there are weights {})", where, which,
                         fmt::join(variants, " and "));
    }
    return other.empty() ? fmt::format("the safetensors weights{}{}", where, which)
                         : fmt::format(
                               "the safetensors weights{}{} (there is {}, which must be "
                               "converted first)",
                               where, which, other);
  }

  const std::set<std::string>& paths_;
  const Wanted& wanted_;
  const ReadText& read_;
  const std::string& origin_;
  std::set<std::string> found_;
  std::set<std::string> absent_;
  Selection selection_;
};

}  // namespace

Selection select_files(const std::set<std::string>& paths, const Wanted& wanted,
                       const ReadText& read, const std::string& origin) {
  return Selector(paths, wanted, read, origin).run();
}

}  // namespace difflet::io::hub
