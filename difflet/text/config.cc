#include "difflet/text/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/text/tokenizer_json.h"

namespace difflet::text {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"bos", "eos", "unk", "sep",
                                                    "pad", "cls", "mask"};

Json read_optional(const std::filesystem::path& path) {
  std::error_code ignored;
  Json json = std::filesystem::exists(path, ignored) ? read_json_file(path) : Json::object();
  check(json.is_object(), ErrorCode::DataLoss, "{}: the file must hold an object, not {}",
        path.string(), json.type_name());
  return json;
}

std::int32_t parse_id(std::string_view text, std::string_view origin) {
  std::int32_t id = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), id);
  check(result.ec == std::errc() && result.ptr == text.data() + text.size() && id >= 0,
        ErrorCode::DataLoss, "{}: '{}' is not a token id", origin, text);
  return id;
}

bool contains(const std::vector<AddedToken>& tokens, std::string_view content) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [content](const AddedToken& t) { return t.content == content; });
}

using ById = std::map<std::int32_t, AddedToken>;

std::vector<AddedToken> in_order(const ById& tokens) {
  std::vector<AddedToken> out;
  for (const auto& [id, token] : tokens) {
    out.push_back(token);
  }
  return out;
}

}  // namespace

FolderConfig::FolderConfig(const std::filesystem::path& folder, const Json& tokenizer_json)
    : folder_(folder),
      origin_((folder / "tokenizer_config.json").string()),
      config_(read_optional(folder / "tokenizer_config.json")),
      special_tokens_map_(Json::object()),
      tokenizer_json_(tokenizer_json) {
  if (!config_.contains("added_tokens_decoder")) {
    special_tokens_map_ = read_optional(folder / "special_tokens_map.json");
  }
}

const Json& FolderConfig::find(std::string_view key) const {
  const Json& mapped = optional_member(special_tokens_map_, key, origin_);
  return mapped.is_null() ? optional_member(config_, key, origin_) : mapped;
}

std::string FolderConfig::class_name() const {
  return text_member(config_, "tokenizer_class", "", origin_);
}

// A token is its text, or an object with the text and flags.
AddedToken FolderConfig::read_token(const Json& json) const {
  if (json.is_object()) {
    return read_added_token(json, origin_);
  }
  check(json.is_string(), ErrorCode::DataLoss, "{}: a token must be a string or an object, not {}",
        origin_, json.type_name());
  AddedToken token;
  token.content = json.get<std::string>();
  token.special = true;
  token.normalized = false;
  return token;
}

std::string FolderConfig::token(std::string_view name, std::string_view absent) const {
  const Json& value = find(fmt::format("{}_token", name));
  return value.is_null() ? std::string(absent) : read_token(value).content;
}

std::int64_t FolderConfig::max_length() const {
  const Json& value = optional_member(config_, "model_max_length", origin_);
  constexpr double kUnlimited = 1e9;  // transformers writes 1e30 for "none"
  if (value.is_null() || (value.is_number() && value.get<double>() >= kUnlimited)) {
    return 0;
  }
  return count("model_max_length", 0);
}

std::int64_t FolderConfig::count(std::string_view name, std::int64_t absent) const {
  const Json& value = optional_member(config_, name, origin_);
  if (value.is_null()) {
    return absent;
  }
  check(value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() < 1e9,
        ErrorCode::DataLoss, "{}: '{}' must be a whole number from 0 to 1e9, not {}", origin_, name,
        value.type_name());
  return value.get<std::int64_t>();
}

Limits FolderConfig::limits() const {
  const std::string padding = text_member(config_, "padding_side", "right", origin_);
  const std::string truncation = text_member(config_, "truncation_side", "right", origin_);
  check(padding == "left" || padding == "right", ErrorCode::DataLoss, "{}: padding_side '{}'",
        origin_, padding);
  check(truncation == "right", ErrorCode::Unsupported, "{}: truncation_side '{}'", origin_,
        truncation);
  return {.pad_id = std::nullopt, .pad_left = padding == "left", .max_length = max_length()};
}

std::vector<AddedToken> FolderConfig::listed_tokens() const {
  ById tokens;
  const Json& decoder = optional_member(config_, "added_tokens_decoder", origin_);
  if (!decoder.is_null()) {
    check(decoder.is_object(), ErrorCode::DataLoss,
          "{}: added_tokens_decoder must be an object, not {}", origin_, decoder.type_name());
    for (const auto& [id, token] : decoder.items()) {
      tokens.insert_or_assign(parse_id(id, origin_), read_added_token(token, origin_));
    }
    return in_order(tokens);
  }
  const std::string origin = (folder_ / "added_tokens.json").string();
  const Json added = read_optional(folder_ / "added_tokens.json");
  for (const auto& [content, id] : added.items()) {
    AddedToken token;
    token.content = content;
    const auto named = [&](std::string_view name) {
      return this->token(name, "") == token.content;
    };
    token.special = std::any_of(kNames.begin(), kNames.end(), named);
    token.normalized = !token.special;
    tokens.insert_or_assign(to_id(id, origin), token);
  }
  if (tokenizer_json_.is_object()) {
    const std::string file = (folder_ / "tokenizer.json").string();
    const Json& list = optional_member(tokenizer_json_, "added_tokens", file);
    check(list.is_null() || list.is_array(), ErrorCode::DataLoss,
          "{}: added_tokens must be an array, not {}", file, list.type_name());
    for (const Json& token : list) {
      tokens.insert_or_assign(to_id(member(token, "id", file), file),
                              read_added_token(token, file));
    }
  }
  return in_order(tokens);
}

std::vector<AddedToken> FolderConfig::extra_tokens(const std::vector<AddedToken>& defaults) const {
  std::vector<AddedToken> out;
  for (const std::string_view key : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json& list = find(key);
    if (list.is_array() && !list.empty()) {
      for (const Json& token : list) {
        out.push_back(read_token(token));
      }
      return out;
    }
  }
  return defaults;
}

std::vector<AddedToken> FolderConfig::added_tokens(const TokenNames& defaults,
                                                   const std::vector<AddedToken>& extras) const {
  std::vector<AddedToken> named;
  for (const std::string_view name : kNames) {
    const auto absent = defaults.find(name);
    const Json& value = find(fmt::format("{}_token", name));
    if (!value.is_null()) {
      named.push_back(read_token(value));
    } else if (absent != defaults.end()) {
      named.push_back(read_token(Json(absent->second)));
    }
  }
  std::vector<AddedToken> out = listed_tokens();
  for (AddedToken& token : out) {
    token.special = token.special || contains(named, token.content);
  }
  for (std::vector<AddedToken> more : {named, extra_tokens(extras)}) {
    for (AddedToken& token : more) {
      token.special = token.special || contains(named, token.content);
      if (!contains(out, token.content)) {
        out.push_back(std::move(token));
      }
    }
  }
  return out;
}

}  // namespace difflet::text
