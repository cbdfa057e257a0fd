#pragma once

#include <string_view>

namespace difflet::cli {

// The project's version, as CMakeLists.txt has it (a test compares).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace difflet::cli
