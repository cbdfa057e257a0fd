#include "difflet/text/class_rules.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "difflet/base/error.h"

namespace difflet::text {
namespace {

constexpr std::string_view kClipStart = "<|startoftext|>";
constexpr std::string_view kClipEnd = "<|endoftext|>";
constexpr std::int32_t kT5UnknownId = 2;
constexpr std::int64_t kT5ExtraIds = 100;

std::int32_t required_id(const Stages& stages, std::string_view token, std::string_view origin) {
  auto id = stages.added.id_of(token);
  if (!id) {
    id = stages.model->id_of(token);
  }
  check(id.has_value(), ErrorCode::DataLoss, "{}: the special token '{}' is not in the vocabulary",
        origin, token);
  return *id;
}

// The first character map of a normalizer or of its sequence; null without one.
NormalizerPtr find_charsmap(const Json& normalizer, std::string_view origin) {
  if (normalizer.is_null()) {
    return nullptr;
  }
  const std::string type = string_member(normalizer, "type", origin);
  if (type == "Precompiled") {
    return read_normalizer(normalizer, origin);
  }
  if (type == "Sequence") {
    for (const Json& part : member(normalizer, "normalizers", origin)) {
      if (string_member(part, "type", origin) == "Precompiled") {
        return read_normalizer(part, origin);
      }
    }
  }
  return nullptr;
}

std::string extra_id(std::int64_t i) { return fmt::format("<extra_id_{}>", i); }

// `extras` are those of the model; the extra ids join them.
Stages t5_stages(std::vector<ScoredToken> vocabulary, NormalizerPtr normalizer,
                 std::vector<AddedToken> extras, const FolderConfig& config,
                 std::string_view origin) {
  Stages stages;
  stages.model = std::make_unique<UnigramModel>(
      std::move(vocabulary), UnigramOptions{.unknown_id = kT5UnknownId, .byte_fallback = false},
      origin);
  stages.normalizer = std::move(normalizer);
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(std::make_unique<WhitespaceSplitPreTokenizer>());
  parts.push_back(std::make_unique<MetaspacePreTokenizer>(MetaspacePreTokenizer::Options{}));
  stages.pre_tokenizer = std::make_unique<PreTokenizerSequence>(std::move(parts));
  const std::int64_t count = config.count("extra_ids", kT5ExtraIds);
  for (std::int64_t i = 0; i < count; ++i) {
    AddedToken token;
    token.content = extra_id(i);
    token.normalized = false;
    token.special = true;
    extras.push_back(std::move(token));
  }
  const TokenNames names = {{"eos", "</s>"}, {"pad", "<pad>"}, {"unk", "<unk>"}};
  stages.added =
      AddedTokens(config.added_tokens(names, extras), *stages.model, stages.normalizer.get());
  stages.special.after = {required_id(stages, config.token("eos", "</s>"), origin)};
  stages.limits = config.limits();
  stages.limits.pad_id = required_id(stages, config.token("pad", "<pad>"), origin);
  stages.decoder.kind = Decoder::Kind::Metaspace;
  return stages;
}

NormalizerPtr clip_normalizer() {
  std::vector<NormalizerPtr> parts;
  parts.push_back(std::make_unique<NfcNormalizer>());
  parts.push_back(std::make_unique<ReplaceNormalizer>(known_regex(R"(\s+)").value(), " "));
  parts.push_back(std::make_unique<LowercaseNormalizer>());
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

PreTokenizerPtr clip_pre_tokenizer() {
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(std::make_unique<SplitPreTokenizer>(known_regex(clip_regex()).value(),
                                                      SplitPreTokenizer::Keep::Matches));
  parts.push_back(std::make_unique<ByteLevelPreTokenizer>(
      ByteLevelPreTokenizer::Options{.add_prefix_space = false, .use_regex = true}));
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

}  // namespace

Stages clip_stages(Vocabulary vocabulary, const Merges& merges, const FolderConfig& config,
                   std::string_view origin) {
  BpeOptions options;
  options.unknown_token = config.token("unk", kClipEnd);
  options.word_suffix = "</w>";
  Stages stages;
  stages.model = std::make_unique<BpeModel>(std::move(vocabulary), merges, options, origin);
  stages.normalizer = clip_normalizer();
  stages.pre_tokenizer = clip_pre_tokenizer();
  const std::string end(kClipEnd);
  const TokenNames names = {
      {"bos", std::string(kClipStart)}, {"eos", end}, {"pad", end}, {"unk", end}};
  stages.added =
      AddedTokens(config.added_tokens(names, {}), *stages.model, stages.normalizer.get());
  stages.special.before = {required_id(stages, config.token("bos", kClipStart), origin)};
  stages.special.after = {required_id(stages, config.token("eos", kClipEnd), origin)};
  stages.limits = config.limits();
  stages.limits.pad_id = required_id(stages, config.token("pad", kClipEnd), origin);
  stages.decoder.kind = Decoder::Kind::ByteLevel;
  stages.decoder.word_suffix = "</w>";
  return stages;
}

Stages t5_stages(const Json& tokenizer_json, const FolderConfig& config, std::string_view origin) {
  const Json& vocabulary = member(member(tokenizer_json, "model", origin), "vocab", origin);
  return t5_stages(read_unigram_vocabulary(vocabulary, origin),
                   find_charsmap(optional_member(tokenizer_json, "normalizer", origin), origin), {},
                   config, origin);
}

// The extra ids follow the pieces, the last one first, with the score 0.
Stages t5_stages(SentencePieceModel model, const FolderConfig& config, std::string_view origin) {
  for (std::int64_t i = config.count("extra_ids", kT5ExtraIds); i-- > 0;) {
    model.pieces.push_back({extra_id(i), 0.0});
  }
  NormalizerPtr normalizer;
  if (!model.charsmap.empty()) {
    normalizer =
        std::make_unique<CharsmapNormalizer>(Charsmap(model.charsmap, std::string(origin)));
  }
  return t5_stages(std::move(model.pieces), std::move(normalizer), std::move(model.added), config,
                   origin);
}

}  // namespace difflet::text
