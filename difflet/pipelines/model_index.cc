#include "difflet/pipelines/model_index.h"

#include <vector>

#include "difflet/base/error.h"

namespace difflet::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "model_index.json";

void check_folder(const fs::path& folder) {
  std::error_code ignored;
  check(fs::exists(folder, ignored), ErrorCode::NotFound, "{}: no such folder", folder.string());
  check(fs::is_directory(folder, ignored), ErrorCode::InvalidArgument, "{}: not a folder",
        folder.string());
}

std::vector<std::string> names_of(const ModelIndex& index) {
  std::vector<std::string> names;
  names.reserve(index.components.size());
  for (const auto& [name, class_name] : index.components) {
    names.push_back(name);
  }
  return names;
}

// A component is [library, class]; anything else is a setting of the pipeline.
bool is_component(const Json& value) { return value.is_array() && value.size() == 2; }

}  // namespace

const std::string& ModelIndex::class_of(std::string_view component) const {
  const auto found = components.find(std::string(component));
  check(found != components.end(), ErrorCode::NotFound, "{}: no component '{}'; there are {}",
        (folder / kFile).string(), component, fmt::join(names_of(*this), ", "));
  return found->second;
}

bool has_model_index(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kFile, ignored);
}

ModelIndex parse_model_index(const Json& json, const fs::path& folder) {
  const std::string origin = (folder / kFile).string();
  check(json.is_object(), ErrorCode::DataLoss, "{}: expected a JSON object", origin);
  ModelIndex index{.folder = folder, .pipeline = {}, .components = {}};
  const auto name = json.find("_class_name");
  check(name != json.end() && name->is_string(), ErrorCode::DataLoss,
        "{}: _class_name must be the name of a pipeline class", origin);
  index.pipeline = name->get<std::string>();
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with('_') || !is_component(value) || value[1].is_null()) {
      continue;
    }
    check(value[0].is_string() && value[1].is_string(), ErrorCode::DataLoss,
          "{}: {}: expected [library, class], got {}", origin, key, value.dump());
    index.components.emplace(key, value[1].get<std::string>());
  }
  return index;
}

ModelIndex read_model_index(const fs::path& folder) {
  check_folder(folder);
  check(has_model_index(folder), ErrorCode::NotFound,
        "{}: no {}; --model must be a diffusers checkpoint folder", folder.string(), kFile);
  return parse_model_index(read_json_file(folder / kFile), folder);
}

ComponentPlace find_component(const fs::path& model, const std::string& name) {
  check_folder(model);
  if (name.empty() || name == ".") {
    return {model, ""};
  }
  check(name.find('/') == std::string::npos && name != "..", ErrorCode::InvalidArgument,
        "component '{}' is not the name of a folder in {}", name, model.string());
  ComponentPlace place{model / name, ""};
  if (has_model_index(model)) {
    place.class_name = read_model_index(model).class_of(name);
  }
  std::error_code ignored;
  check(fs::is_directory(place.folder, ignored), ErrorCode::NotFound,
        "{}: component folder not found", place.folder.string());
  return place;
}

}  // namespace difflet::pipelines
