// Text to token ids, identical to the Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::text {

using Ids = std::vector<std::int32_t>;

struct Encoded {
  Ids ids;              // with special tokens, padded to the asked length
  std::string dropped;  // the text that truncation cut off, decoded for a warning; empty if none
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Content and special tokens, no padding or truncation. Invalid UTF-8 throws InvalidArgument with
  // the byte offset.
  virtual Ids encode(std::string_view text) const = 0;
  // Truncated to `length` (keeping the closing special token) and padded to it on the right.
  virtual Encoded encode_padded(std::string_view text, std::int64_t length) const = 0;
  virtual std::string decode(const Ids& ids) const = 0;  // special tokens skipped
  virtual std::int64_t vocab_size() const = 0;           // largest id + 1
  // model_max_length of tokenizer_config.json; 0 when absent or unlimited.
  virtual std::int64_t max_length() const = 0;
};

// Opens a tokenizer folder of a diffusers checkpoint: CLIP (vocab.json + merges.txt, or
// tokenizer.json with a BPE model) or T5 (tokenizer.json Unigram, else spiece.model), with the rules
// that transformers 5 gives these classes: of the model file only the vocabulary, the merges and the
// character map count, the other stages come from the class. `class_name` is the class that
// model_index.json names ("CLIPTokenizer", "T5TokenizerFast"); empty takes tokenizer_class of
// tokenizer_config.json, failing that the files decide. For any other class the stages are those of
// tokenizer.json. Throws NotFound, DataLoss or Unsupported, naming the file.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder,
                                          std::string_view class_name = {});
// A tokenizer.json alone, run as the tokenizers library does: all stages from the file, its
// truncation and padding ignored. No padding token unless the file's padding has one.
std::unique_ptr<Tokenizer> open_tokenizer_file(const std::filesystem::path& file);

}  // namespace difflet::text
