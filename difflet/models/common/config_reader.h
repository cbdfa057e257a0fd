// Reads the fields of a config.json: the file's value, else the class default; unknown fields are
// collected for a warning and wrong ones refused with file and field named.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"

namespace difflet::models {

struct Range {
  std::int64_t min = 1, max = 1 << 20;
};

class ConfigReader {
 public:
  // `origin` names the file in messages. Throws DataLoss unless `json` is an object.
  ConfigReader(Json json, std::string origin);

  std::int64_t integer(std::string_view key, std::int64_t fallback, Range range = {});
  // null or absent: nothing.
  std::optional<std::int64_t> optional_integer(std::string_view key, Range range = {});
  double number(std::string_view key, double fallback);
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  std::vector<std::int64_t> integers(std::string_view key, std::vector<std::int64_t> fallback,
                                     Range range = {});
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback);
  // Fields that this class has but that change nothing here.
  void ignore(std::initializer_list<std::string_view> keys);
  // Throws Unsupported "file: key: value is not supported: why".
  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;
  bool has(std::string_view key) const { return json_.contains(std::string(key)); }
  const std::string& origin() const noexcept { return origin_; }
  // Fields that nobody asked for; those starting with "_" do not count.
  std::vector<std::string> unknown() const;

 private:
  const Json* find(std::string_view key);
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  Json json_;
  std::string origin_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace difflet::models
