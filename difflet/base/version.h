// The version of the project.
#pragma once

#include <string_view>

namespace difflet {

// The project's version, as CMakeLists.txt has it (a test compares).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace difflet
