// model_index.json of a diffusers folder: which pipeline it is and of which components it consists.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "difflet/base/json.h"

namespace difflet::pipelines {

struct ModelIndex {
  std::filesystem::path folder;
  std::string pipeline;                           // _class_name
  std::map<std::string, std::string> components;  // name -> class, without those that are null

  // Throws NotFound, naming the component and what is there.
  const std::string& class_of(std::string_view component) const;
};

// Throws NotFound when the folder or the file is not there, DataLoss when it is no model index.
ModelIndex read_model_index(const std::filesystem::path& folder);
ModelIndex parse_model_index(const Json& json, const std::filesystem::path& folder);
bool has_model_index(const std::filesystem::path& folder);

// A component of `model`, or `model` itself when the name is empty.
struct ComponentPlace {
  std::filesystem::path folder;
  std::string class_name;  // as the index names it; empty: the component's config decides
};
// Throws InvalidArgument for a name that is not one of a folder, NotFound with the names there are.
ComponentPlace find_component(const std::filesystem::path& model, const std::string& name);

}  // namespace difflet::pipelines
