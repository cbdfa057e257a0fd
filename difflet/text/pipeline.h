// A tokenizer put together from its stages: added tokens in the raw text, normalizer, added tokens in
// the normalized text, pre-tokenizer, model, special tokens around the result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "difflet/text/added_tokens.h"
#include "difflet/text/model.h"
#include "difflet/text/normalizer.h"
#include "difflet/text/pre_tokenizer.h"
#include "difflet/text/tokenizer.h"

namespace difflet::text {

// Ids put around the tokens of a text.
struct SpecialTokens {
  Ids before;
  Ids after;
};

// How tokens become text again.
struct Decoder {
  enum class Kind {
    Spaces,     // no decoder: tokens joined with spaces
    ByteLevel,  // GPT-2's characters back to bytes
    Metaspace,  // the mark back to a space, except in the first token
  };
  Kind kind = Kind::Spaces;
  std::string mark = "\u2581";
  bool keep_first_mark = false;  // Metaspace that prepends nothing
  std::string word_suffix;       // becomes a space, the ends are stripped (CLIP: "</w>")
};

// What a tokenizer says about lengths and padding.
struct Limits {
  std::optional<std::int32_t> pad_id;
  bool pad_left = false;
  std::int64_t max_length = 0;
};

struct Stages {
  NormalizerPtr normalizer;       // may be null
  PreTokenizerPtr pre_tokenizer;  // may be null
  std::unique_ptr<const Model> model;
  AddedTokens added;
  SpecialTokens special;
  Decoder decoder;
  Limits limits;
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(Stages stages) : stages_(std::move(stages)) {}

  Ids encode(std::string_view text) const override;
  Encoded encode_padded(std::string_view text, std::int64_t length) const override;
  std::string decode(const Ids& ids) const override;
  std::int64_t vocab_size() const override;
  std::int64_t max_length() const override { return stages_.limits.max_length; }

 private:
  Ids encode_content(std::string_view text) const;
  void encode_normalized(const Piece& piece, Ids* out) const;

  Stages stages_;
};

// Checks shared by all tokenizers: well-formed UTF-8 (InvalidArgument with the byte offset) of at
// most 256 MiB (ResourceExhausted).
void check_text(std::string_view text);
// Cuts `content` so that it fits `length` with its special tokens, and pads it. *dropped gets the ids
// that were cut off.
Ids fit(const Ids& content, const SpecialTokens& special, const Limits& limits, std::int64_t length,
        Ids* dropped);

}  // namespace difflet::text
