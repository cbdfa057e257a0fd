#include "difflet/text/pipeline.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 28U;

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text->find(from); at != std::string::npos; at = text->find(from, done)) {
    out.append(*text, done, at - done);
    out += to;
    done = at + from.size();
  }
  out.append(*text, done);
  *text = std::move(out);
}

std::string decode_bytes(const std::vector<std::string_view>& tokens) {
  std::string bytes;
  for (const std::string_view token : tokens) {
    append_characters_as_bytes(token, &bytes);
  }
  return repair_utf8(bytes);
}

std::string decode_marks(const Decoder& decoder, const std::vector<std::string_view>& tokens) {
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token(tokens[i]);
    replace_all(&token, decoder.mark, i == 0 && !decoder.keep_first_mark ? "" : " ");
    out += token;
  }
  return out;
}

}  // namespace

void check_text(std::string_view text) {
  check(text.size() <= kMaxText, ErrorCode::ResourceExhausted,
        "text of {} bytes is longer than the limit of {} bytes", text.size(), kMaxText);
  const std::size_t invalid = find_invalid_utf8(text);
  check(invalid == std::string_view::npos, ErrorCode::InvalidArgument,
        "the text is not UTF-8: byte {} (of {}) is wrong", invalid, text.size());
}

Ids fit(const Ids& content, const SpecialTokens& special, const Limits& limits, std::int64_t length,
        Ids* dropped) {
  const std::size_t around = special.before.size() + special.after.size();
  check(length >= static_cast<std::int64_t>(around) && length < (std::int64_t{1} << 31U),
        ErrorCode::InvalidArgument,
        "a token sequence of length {} cannot hold the {} special tokens of this tokenizer", length,
        around);
  const auto total = static_cast<std::size_t>(length);
  const std::size_t kept = std::min(content.size(), total - around);
  const auto cut = content.begin() + static_cast<std::ptrdiff_t>(kept);
  Ids ids = special.before;
  ids.insert(ids.end(), content.begin(), cut);
  ids.insert(ids.end(), special.after.begin(), special.after.end());
  dropped->assign(cut, content.end());
  if (ids.size() < total) {
    check(limits.pad_id.has_value(), ErrorCode::Unsupported,
          "the tokenizer names no padding token, so it cannot pad to {} tokens", length);
    ids.insert(limits.pad_left ? ids.begin() : ids.end(), total - ids.size(), *limits.pad_id);
  }
  return ids;
}

void Pipeline::encode_normalized(const Piece& piece, Ids* out) const {
  for (const Span& span : stages_.added.split_normalized(piece.text)) {
    if (span.id) {
      out->push_back(*span.id);
      continue;
    }
    Pieces pieces = {
        {piece.text.substr(span.begin, span.end - span.begin), piece.at_start && span.begin == 0}};
    if (stages_.pre_tokenizer) {
      pieces = stages_.pre_tokenizer->split(pieces);
    }
    for (const Piece& part : pieces) {
      stages_.model->tokenize(part.text, out);
    }
  }
}

Ids Pipeline::encode_content(std::string_view text) const {
  check_text(text);
  Ids out;
  for (const Span& span : stages_.added.split_raw(text)) {
    if (span.id) {
      out.push_back(*span.id);
      continue;
    }
    const std::string_view part = text.substr(span.begin, span.end - span.begin);
    encode_normalized(
        {stages_.normalizer ? stages_.normalizer->apply(part) : std::string(part), span.begin == 0},
        &out);
  }
  return out;
}

Ids Pipeline::encode(std::string_view text) const {
  Ids ids = stages_.special.before;
  const Ids content = encode_content(text);
  ids.insert(ids.end(), content.begin(), content.end());
  ids.insert(ids.end(), stages_.special.after.begin(), stages_.special.after.end());
  return ids;
}

Encoded Pipeline::encode_padded(std::string_view text, std::int64_t length) const {
  Ids dropped;
  Encoded encoded;
  encoded.ids = fit(encode_content(text), stages_.special, stages_.limits, length, &dropped);
  encoded.dropped = decode(dropped);
  return encoded;
}

std::string Pipeline::decode(const Ids& ids) const {
  std::vector<std::string_view> tokens;
  for (const std::int32_t id : ids) {
    const AddedToken* added = stages_.added.find(id);
    if (added != nullptr && added->special) {
      continue;
    }
    const auto token = added != nullptr ? std::string_view(added->content)
                                        : stages_.model->token_of(id).value_or("");
    tokens.push_back(token);
  }
  std::string out;
  switch (stages_.decoder.kind) {
    case Decoder::Kind::ByteLevel:
      out = decode_bytes(tokens);
      break;
    case Decoder::Kind::Metaspace:
      out = decode_marks(stages_.decoder, tokens);
      break;
    case Decoder::Kind::Spaces:
      out = fmt::format("{}", fmt::join(tokens, " "));
      break;
  }
  if (!stages_.decoder.word_suffix.empty()) {
    replace_all(&out, stages_.decoder.word_suffix, " ");
    out = StripNormalizer({.left = true, .right = true}).apply(out);
  }
  return out;
}

std::int64_t Pipeline::vocab_size() const {
  return std::max(stages_.model->id_limit(), stages_.added.id_limit());
}

}  // namespace difflet::text
