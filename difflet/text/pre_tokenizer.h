// Third stage of a tokenizer: normalized text to the pieces that the model sees one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/text/pattern.h"

namespace difflet::text {

struct Piece {
  std::string text;
  bool at_start = false;  // begins where the whole text begins
};

using Pieces = std::vector<Piece>;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Empty pieces are dropped.
  virtual Pieces split(const Pieces& pieces) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

class SplitPreTokenizer final : public PreTokenizer {
 public:
  enum class Keep {
    Matches,  // "Removed" with invert: what does not match is dropped
    Rest,     // "Removed": the matches are dropped
    Both,     // "Isolated"
  };
  SplitPreTokenizer(Pattern pattern, Keep keep) : pattern_(std::move(pattern)), keep_(keep) {}
  Pieces split(const Pieces& pieces) const override;

 private:
  Pattern pattern_;
  Keep keep_;
};

// Replaces each byte by the character that GPT-2 gave it, after cutting with GPT-2's expression.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  struct Options {
    bool add_prefix_space = true;
    bool use_regex = true;
  };
  explicit ByteLevelPreTokenizer(Options options) : options_(options) {}
  Pieces split(const Pieces& pieces) const override;

 private:
  Options options_;
};

class WhitespaceSplitPreTokenizer final : public PreTokenizer {
 public:
  Pieces split(const Pieces& pieces) const override;
};

// Spaces become `mark`, which starts each piece.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { Always, First, Never };
  struct Options {
    std::string mark = "\u2581";
    Prepend prepend = Prepend::Always;
    bool split = true;
  };
  explicit MetaspacePreTokenizer(Options options) : options_(std::move(options)) {}
  Pieces split(const Pieces& pieces) const override;

 private:
  Options options_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}
  Pieces split(const Pieces& pieces) const override;

 private:
  std::vector<PreTokenizerPtr> parts_;
};

// GPT-2's characters for bytes: printable Latin-1 stands for itself, the others for 256 and up.
std::string bytes_to_characters(std::string_view bytes);
// The inverse; appends `text` unchanged when one of its characters stands for no byte.
void append_characters_as_bytes(std::string_view text, std::string* bytes);

}  // namespace difflet::text
