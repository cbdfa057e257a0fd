// Access to the members of the JSON files of a tokenizer.
#include <cstdint>
#include <limits>

#include "difflet/base/error.h"
#include "difflet/text/tokenizer_json.h"

namespace difflet::text {

const Json& optional_member(const Json& object, std::string_view name, std::string_view origin) {
  static const Json kNull;
  check(object.is_object(), ErrorCode::DataLoss, "{}: an object with '{}' was expected, not {}",
        origin, name, object.type_name());
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const Json& member(const Json& object, std::string_view name, std::string_view origin) {
  const Json& value = optional_member(object, name, origin);
  check(!value.is_null(), ErrorCode::DataLoss, "{}: '{}' is missing", origin, name);
  return value;
}

std::string text_member(const Json& object, std::string_view name, std::string_view absent,
                        std::string_view origin) {
  const Json& value = optional_member(object, name, origin);
  if (value.is_null()) {
    return std::string(absent);
  }
  check(value.is_string(), ErrorCode::DataLoss, "{}: '{}' must be a string, not {}", origin, name,
        value.type_name());
  return value.get<std::string>();
}

std::string string_member(const Json& object, std::string_view name, std::string_view origin) {
  member(object, name, origin);
  return text_member(object, name, "", origin);
}

bool flag_member(const Json& object, std::string_view name, bool absent, std::string_view origin) {
  const Json& value = optional_member(object, name, origin);
  if (value.is_null()) {
    return absent;
  }
  check(value.is_boolean(), ErrorCode::DataLoss, "{}: '{}' must be true or false, not {}", origin,
        name, value.type_name());
  return value.get<bool>();
}

std::int32_t to_id(const Json& json, std::string_view origin) {
  constexpr std::uint64_t kLimit = std::numeric_limits<std::int32_t>::max();
  check(json.is_number_unsigned() && json.get<std::uint64_t>() < kLimit, ErrorCode::DataLoss,
        "{}: a token id must be a whole number from 0 to {}, not {}", origin, kLimit - 1,
        json.type_name());
  return static_cast<std::int32_t>(json.get<std::uint64_t>());
}

}  // namespace difflet::text
