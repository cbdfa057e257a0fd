// The components that can be traced, by class name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/models/common/component.h"
#include "difflet/models/common/config_reader.h"

namespace difflet::models {

// The class of a component folder's config.json: "_class_name" (diffusers), "architectures"
// (transformers) or "model_type". Throws Unsupported when none is there.
std::string component_class(const Json& config, std::string_view origin);

// Throws DataLoss when the config is of another known component than `class_name`, under which a
// pipeline lists it.
void check_component_class(const Json& config, std::string_view origin,
                           std::string_view class_name);

// Reads the config as `class_name`. Throws Unsupported with the known classes.
std::unique_ptr<Component> make_component(std::string_view class_name, ConfigReader& reader);

std::vector<std::string> component_classes();

}  // namespace difflet::models
