// What of a repository a pipeline loads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace difflet::pipelines {

// Names of the components that a pipeline class loads; empty for a class that is not known, of which
// anything may be needed.
std::vector<std::string> needed_components(std::string_view pipeline_class);

}  // namespace difflet::pipelines
