#include "difflet/models/common/config_reader.h"

#include "difflet/base/error.h"

namespace difflet::models {

ConfigReader::ConfigReader(Json json, std::string origin)
    : json_(std::move(json)), origin_(std::move(origin)) {
  check(json_.is_object(), ErrorCode::DataLoss, "{}: expected a JSON object", origin_);
}

const Json* ConfigReader::find(std::string_view key) {
  known_.emplace(key);
  const auto it = json_.find(std::string(key));
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::wrong(std::string_view key, std::string_view expected) const {
  fail(ErrorCode::InvalidArgument, "{}: {}: expected {}, got {}", origin_, key, expected,
       json_.at(std::string(key)).dump());
}

void ConfigReader::refuse(std::string_view key, std::string_view why) const {
  const auto it = json_.find(std::string(key));
  fail(ErrorCode::Unsupported, "{}: {}: {} is not supported: {}", origin_, key,
       it == json_.end() ? "the default" : it->dump(), why);
}

std::optional<std::int64_t> ConfigReader::optional_integer(std::string_view key, Range range) {
  const Json* v = find(key);
  if (v == nullptr) {
    return std::nullopt;
  }
  const std::string expected = fmt::format("an integer from {} to {}", range.min, range.max);
  if (!v->is_number_integer() || (v->is_number_unsigned() && v->get<std::uint64_t>() > INT64_MAX)) {
    wrong(key, expected);
  }
  const auto value = v->get<std::int64_t>();
  if (value < range.min || value > range.max) {
    wrong(key, expected);
  }
  return value;
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t fallback, Range range) {
  return optional_integer(key, range).value_or(fallback);
}

double ConfigReader::number(std::string_view key, double fallback) {
  const Json* v = find(key);
  if (v == nullptr) {
    return fallback;
  }
  if (!v->is_number()) {
    wrong(key, "a number");
  }
  return v->get<double>();
}

bool ConfigReader::flag(std::string_view key, bool fallback) {
  const Json* v = find(key);
  if (v == nullptr) {
    return fallback;
  }
  if (!v->is_boolean()) {
    wrong(key, "true or false");
  }
  return v->get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) {
  const Json* v = find(key);
  if (v == nullptr) {
    return std::string(fallback);
  }
  if (!v->is_string()) {
    wrong(key, "a string");
  }
  return v->get<std::string>();
}

std::vector<std::int64_t> ConfigReader::integers(std::string_view key,
                                                 std::vector<std::int64_t> fallback, Range range) {
  const Json* v = find(key);
  if (v == nullptr) {
    return fallback;
  }
  const std::string expected =
      fmt::format("a list of 1 to 64 integers from {} to {}", range.min, range.max);
  if (!v->is_array() || v->empty() || v->size() > 64) {
    wrong(key, expected);
  }
  std::vector<std::int64_t> values;
  for (const Json& item : *v) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < range.min ||
        item.get<std::int64_t>() > range.max) {
      wrong(key, expected);
    }
    values.push_back(item.get<std::int64_t>());
  }
  return values;
}

std::vector<std::string> ConfigReader::texts(std::string_view key,
                                             std::vector<std::string> fallback) {
  const Json* v = find(key);
  if (v == nullptr) {
    return fallback;
  }
  if (!v->is_array() || v->size() > 64) {
    wrong(key, "a list of at most 64 strings");
  }
  std::vector<std::string> values;
  for (const Json& item : *v) {
    if (!item.is_string()) {
      wrong(key, "a list of strings");
    }
    values.push_back(item.get<std::string>());
  }
  return values;
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    known_.emplace(key);
  }
}

std::vector<std::string> ConfigReader::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_.items()) {
    if (!key.starts_with('_') && !known_.contains(key)) {
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace difflet::models
