// Reading golden files (README.md beside this file).
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"

namespace difflet::golden {

inline std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(DIFFLET_SOURCE_DIR) / "tests/golden/data" / name;
}

// A U8 tensor, which the engine has no type for.
inline std::vector<std::uint8_t> read_u8(const std::filesystem::path& path,
                                         const std::string& name) {
  const std::string file = read_text_file(path);
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  const std::string_view whole = file;
  const Json header = parse_json(whole.substr(sizeof(size), size), path.string());
  const Json& entry = header.at(name);
  EXPECT_EQ(entry.at("dtype"), "U8") << name;
  const std::size_t base = sizeof(size) + size;
  const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::size_t>();
  const std::string_view bytes = whole.substr(base + begin, end - begin);
  return {bytes.begin(), bytes.end()};
}

}  // namespace difflet::golden
