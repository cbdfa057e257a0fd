#include "difflet/text/tokenizer_json.h"

#include <cmath>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

const Json& array_member(const Json& object, std::string_view name, std::string_view origin) {
  const Json& value = member(object, name, origin);
  check(value.is_array(), ErrorCode::DataLoss, "{}: '{}' must be an array, not {}", origin, name,
        value.type_name());
  return value;
}

std::optional<std::string> nullable_text(const Json& object, std::string_view name,
                                         std::string_view origin) {
  if (optional_member(object, name, origin).is_null()) {
    return std::nullopt;
  }
  return text_member(object, name, "", origin);
}

std::unique_ptr<const Model> read_bpe(const Json& json, std::string_view origin) {
  const Json& dropout = optional_member(json, "dropout", origin);
  check(dropout.is_null() || (dropout.is_number() && dropout.get<double>() == 0.0),
        ErrorCode::Unsupported, "{}: BPE with dropout", origin);
  BpeOptions options;
  options.unknown_token = nullable_text(json, "unk_token", origin);
  options.word_prefix = text_member(json, "continuing_subword_prefix", "", origin);
  options.word_suffix = text_member(json, "end_of_word_suffix", "", origin);
  options.fuse_unknown = flag_member(json, "fuse_unk", false, origin);
  options.byte_fallback = flag_member(json, "byte_fallback", false, origin);
  options.ignore_merges = flag_member(json, "ignore_merges", false, origin);
  return std::make_unique<BpeModel>(read_bpe_vocabulary(member(json, "vocab", origin), origin),
                                    read_bpe_merges(member(json, "merges", origin), origin),
                                    std::move(options), origin);
}

std::unique_ptr<const Model> read_unigram(const Json& json, std::string_view origin) {
  UnigramOptions options;
  if (const Json& id = optional_member(json, "unk_id", origin); !id.is_null()) {
    options.unknown_id = to_id(id, origin);
  }
  options.byte_fallback = flag_member(json, "byte_fallback", false, origin);
  return std::make_unique<UnigramModel>(
      read_unigram_vocabulary(member(json, "vocab", origin), origin), options, origin);
}

// Files of before 2020 leave the type out.
std::string model_type(const Json& json, std::string_view origin) {
  const std::string type = text_member(json, "type", "", origin);
  return !type.empty() ? type : json.contains("merges") ? "BPE" : "Unigram";
}

}  // namespace

Vocabulary read_bpe_vocabulary(const Json& vocab, std::string_view origin) {
  check(vocab.is_object(), ErrorCode::DataLoss, "{}: the vocabulary must be an object, not {}",
        origin, vocab.type_name());
  Vocabulary vocabulary;
  vocabulary.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    vocabulary.emplace(token, to_id(id, origin));
  }
  return vocabulary;
}

Merges read_bpe_merges(const Json& merges, std::string_view origin) {
  check(merges.is_array(), ErrorCode::DataLoss, "{}: the merges must be an array, not {}", origin,
        merges.type_name());
  Merges out;
  out.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_string()) {  // "left right", before tokenizers 0.20
      const auto& pair = merge.get_ref<const std::string&>();
      const std::size_t space = pair.find(' ');
      check(space != std::string::npos && pair.find(' ', space + 1) == std::string::npos,
            ErrorCode::DataLoss, "{}: merge {} ('{}') is not two tokens", origin, out.size() + 1,
            pair);
      out.emplace_back(pair.substr(0, space), pair.substr(space + 1));
      continue;
    }
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    check(is_pair, ErrorCode::DataLoss, "{}: merge {} is not two tokens", origin, out.size() + 1);
    out.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  return out;
}

std::vector<ScoredToken> read_unigram_vocabulary(const Json& vocab, std::string_view origin) {
  check(vocab.is_array(), ErrorCode::DataLoss, "{}: the vocabulary must be an array, not {}",
        origin, vocab.type_name());
  std::vector<ScoredToken> out;
  out.reserve(vocab.size());
  for (const Json& entry : vocab) {
    const bool is_pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    check(is_pair && std::isfinite(entry[1].get<double>()), ErrorCode::DataLoss,
          "{}: entry {} of the vocabulary is not a token and its score", origin, out.size());
    out.push_back({entry[0].get<std::string>(), entry[1].get<double>()});
  }
  return out;
}

AddedToken read_added_token(const Json& json, std::string_view origin) {
  AddedToken token;
  token.content = string_member(json, "content", origin);
  token.single_word = flag_member(json, "single_word", false, origin);
  token.left_strip = flag_member(json, "lstrip", false, origin);
  token.right_strip = flag_member(json, "rstrip", false, origin);
  token.special = flag_member(json, "special", false, origin);
  token.normalized = flag_member(json, "normalized", !token.special, origin);
  return token;
}

// The pieces of the template for one text: ids before and after it.
SpecialTokens read_template(const Json& json, std::string_view origin) {
  SpecialTokens special;
  bool after = false;
  for (const Json& piece : array_member(json, "single", origin)) {
    if (const Json& sequence = optional_member(piece, "Sequence", origin); !sequence.is_null()) {
      check(!after && string_member(sequence, "id", origin) == "A", ErrorCode::Unsupported,
            "{}: TemplateProcessing with more than one text in 'single'", origin);
      after = true;
      continue;
    }
    const std::string name = string_member(member(piece, "SpecialToken", origin), "id", origin);
    const Json& token = member(member(json, "special_tokens", origin), name, origin);
    for (const Json& id : array_member(token, "ids", origin)) {
      (after ? special.after : special.before).push_back(to_id(id, origin));
    }
  }
  check(after, ErrorCode::Unsupported, "{}: TemplateProcessing without a text in 'single'", origin);
  return special;
}

std::int32_t paired_id(const Json& json, std::string_view name, std::string_view origin) {
  const Json& pair = array_member(json, name, origin);
  check(pair.size() == 2, ErrorCode::DataLoss, "{}: '{}' is not a token and its id", origin, name);
  return to_id(pair[1], origin);
}

SpecialTokens read_post_processor(const Json& json, std::string_view origin) {
  if (json.is_null()) {
    return {};
  }
  const std::string type = string_member(json, "type", origin);
  if (type == "TemplateProcessing") {
    return read_template(json, origin);
  }
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    return {{paired_id(json, "cls", origin)}, {paired_id(json, "sep", origin)}};
  }
  if (type == "ByteLevel") {  // moves offsets only
    return {};
  }
  check(type == "Sequence", ErrorCode::Unsupported, "{}: post-processor '{}'", origin, type);
  SpecialTokens special;
  for (const Json& part : array_member(json, "processors", origin)) {
    const SpecialTokens next = read_post_processor(part, origin);
    special.before.insert(special.before.begin(), next.before.begin(), next.before.end());
    special.after.insert(special.after.end(), next.after.begin(), next.after.end());
  }
  return special;
}

Decoder read_decoder(const Json& json, std::string_view origin) {
  Decoder decoder;
  if (json.is_null()) {
    return decoder;
  }
  const std::string type = string_member(json, "type", origin);
  if (type == "ByteLevel") {
    decoder.kind = Decoder::Kind::ByteLevel;
  } else {
    check(type == "Metaspace", ErrorCode::Unsupported, "{}: decoder '{}'", origin, type);
    decoder.kind = Decoder::Kind::Metaspace;
    decoder.mark = string_member(json, "replacement", origin);
    decoder.keep_first_mark = text_member(json, "prepend_scheme", "always", origin) == "never" ||
                              !flag_member(json, "add_prefix_space", true, origin);
  }
  return decoder;
}

Stages read_tokenizer_json(const Json& file, std::string_view origin) {
  Stages stages;
  const Json& model = member(file, "model", origin);
  const std::string type = model_type(model, origin);
  if (type == "BPE") {
    stages.model = read_bpe(model, origin);
  } else {
    check(type == "Unigram", ErrorCode::Unsupported, "{}: tokenizer model '{}'", origin, type);
    stages.model = read_unigram(model, origin);
  }
  stages.normalizer = read_normalizer(optional_member(file, "normalizer", origin), origin);
  stages.pre_tokenizer = read_pre_tokenizer(optional_member(file, "pre_tokenizer", origin), origin);
  stages.decoder = read_decoder(optional_member(file, "decoder", origin), origin);
  stages.special = read_post_processor(optional_member(file, "post_processor", origin), origin);
  std::vector<AddedToken> added;
  if (const Json& tokens = optional_member(file, "added_tokens", origin); !tokens.is_null()) {
    for (const Json& token : array_member(file, "added_tokens", origin)) {
      added.push_back(read_added_token(token, origin));
    }
  }
  stages.added = AddedTokens(added, *stages.model, stages.normalizer.get());
  return stages;
}

}  // namespace difflet::text
