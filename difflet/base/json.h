// JSON values (nlohmann-json) with errors in our own type.
#pragma once

#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

namespace difflet {

// Keys keep the order of the file.
using Json = nlohmann::ordered_json;

// `origin` names the text in errors (a file name). Throws DataLoss with line and column; depth is
// limited to 200, NaN and duplicate keys are refused.
Json parse_json(std::string_view text, std::string_view origin);
Json read_json_file(const std::filesystem::path& path);

}  // namespace difflet
