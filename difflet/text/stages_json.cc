// The normalizers and pre-tokenizers of tokenizer.json.
#include <utility>

#include "difflet/base/error.h"
#include "difflet/text/tokenizer_json.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

// {"String": "..."} or {"Regex": "..."}
Pattern read_pattern(const Json& json, std::string_view origin) {
  if (const std::string literal = text_member(json, "String", "", origin); !literal.empty()) {
    return literal_pattern(literal);
  }
  const std::string regex = string_member(json, "Regex", origin);
  auto pattern = known_regex(regex);
  check(pattern.has_value(), ErrorCode::Unsupported,
        "{}: the regular expression '{}' is not one of those that this build knows", origin, regex);
  return *std::move(pattern);
}

const Json& parts_of(const Json& json, std::string_view name, std::string_view origin) {
  const Json& parts = member(json, name, origin);
  check(parts.is_array(), ErrorCode::DataLoss, "{}: '{}' must be an array, not {}", origin, name,
        parts.type_name());
  return parts;
}

PreTokenizerPtr read_split(const Json& json, std::string_view origin) {
  const std::string behavior = string_member(json, "behavior", origin);
  const bool invert = flag_member(json, "invert", false, origin);
  auto keep = SplitPreTokenizer::Keep::Both;
  if (behavior == "Removed") {
    keep = invert ? SplitPreTokenizer::Keep::Matches : SplitPreTokenizer::Keep::Rest;
  } else {
    check(behavior == "Isolated", ErrorCode::Unsupported, "{}: Split with behavior '{}'", origin,
          behavior);
  }
  return std::make_unique<SplitPreTokenizer>(read_pattern(member(json, "pattern", origin), origin),
                                             keep);
}

PreTokenizerPtr read_metaspace(const Json& json, std::string_view origin) {
  MetaspacePreTokenizer::Options options;
  options.mark = string_member(json, "replacement", origin);
  options.split = flag_member(json, "split", true, origin);
  std::size_t at = 0;
  const bool one = !options.mark.empty() && (next_code_point(options.mark, &at), true) &&
                   at == options.mark.size();
  check(one, ErrorCode::DataLoss, "{}: the replacement of Metaspace is not one character", origin);
  const std::string prepend = text_member(json, "prepend_scheme", "always", origin);
  const bool known = prepend == "always" || prepend == "first" || prepend == "never";
  check(known, ErrorCode::Unsupported, "{}: Metaspace with prepend_scheme '{}'", origin, prepend);
  using Prepend = MetaspacePreTokenizer::Prepend;
  const bool prefix = flag_member(json, "add_prefix_space", true, origin);  // before 0.15
  options.prepend = !prefix || prepend == "never" ? Prepend::Never
                    : prepend == "first"          ? Prepend::First
                                                  : Prepend::Always;
  return std::make_unique<MetaspacePreTokenizer>(std::move(options));
}

}  // namespace

NormalizerPtr read_normalizer(const Json& json, std::string_view origin) {
  if (json.is_null()) {
    return nullptr;
  }
  const std::string type = string_member(json, "type", origin);
  if (type == "NFC") {
    return std::make_unique<NfcNormalizer>();
  }
  if (type == "Lowercase") {
    return std::make_unique<LowercaseNormalizer>();
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceNormalizer>(
        read_pattern(member(json, "pattern", origin), origin),
        string_member(json, "content", origin));
  }
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(
        StripNormalizer::Sides{.left = flag_member(json, "strip_left", true, origin),
                               .right = flag_member(json, "strip_right", true, origin)});
  }
  if (type == "Precompiled") {
    const std::string map = string_member(json, "precompiled_charsmap", origin);
    return std::make_unique<CharsmapNormalizer>(
        Charsmap(decode_base64(map, origin), std::string(origin)));
  }
  check(type == "Sequence", ErrorCode::Unsupported, "{}: normalizer '{}'", origin, type);
  std::vector<NormalizerPtr> parts;
  for (const Json& part : parts_of(json, "normalizers", origin)) {
    if (auto normalizer = read_normalizer(part, origin)) {
      parts.push_back(std::move(normalizer));
    }
  }
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

PreTokenizerPtr read_pre_tokenizer(const Json& json, std::string_view origin) {
  if (json.is_null()) {
    return nullptr;
  }
  const std::string type = string_member(json, "type", origin);
  if (type == "Split") {
    return read_split(json, origin);
  }
  if (type == "Metaspace") {
    return read_metaspace(json, origin);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<WhitespaceSplitPreTokenizer>();
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelPreTokenizer>(ByteLevelPreTokenizer::Options{
        .add_prefix_space = flag_member(json, "add_prefix_space", true, origin),
        .use_regex = flag_member(json, "use_regex", true, origin)});
  }
  check(type == "Sequence", ErrorCode::Unsupported, "{}: pre-tokenizer '{}'", origin, type);
  std::vector<PreTokenizerPtr> parts;
  for (const Json& part : parts_of(json, "pretokenizers", origin)) {
    if (auto pre_tokenizer = read_pre_tokenizer(part, origin)) {
      parts.push_back(std::move(pre_tokenizer));
    }
  }
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

}  // namespace difflet::text
