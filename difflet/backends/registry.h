// The backends of this build, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "difflet/runtime/backend.h"

namespace difflet::backends {

// Throws InvalidArgument with the known names.
const runtime::Backend& find(std::string_view name);
std::vector<std::string> names();

}  // namespace difflet::backends
