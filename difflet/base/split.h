// Lists in options and names.
#pragma once

#include <string_view>
#include <vector>

namespace difflet {

// The parts between separators, empty ones too; at least one. They point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace difflet
