// Second stage of a tokenizer: tokens that are cut out of the text before the model sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "difflet/text/model.h"
#include "difflet/text/normalizer.h"

namespace difflet::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;
  bool normalized = true;  // matched in the normalized text, in its normalized form
  bool special = false;    // left out when decoding
};

// Part of a text: an added token, or text that goes on to the model.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::optional<std::int32_t> id;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // A token of the model keeps its id, others are numbered behind the model in the given order; a
  // token that is given again gets the new flags. `normalizer` may be null.
  AddedTokens(const std::vector<AddedToken>& tokens, const Model& model,
              const Normalizer* normalizer);

  std::vector<Span> split_raw(std::string_view text) const { return split(raw_, text); }
  std::vector<Span> split_normalized(std::string_view text) const {
    return split(normalized_, text);
  }
  std::optional<std::int32_t> id_of(std::string_view content) const;
  // Nothing for an id that is not an added token.
  const AddedToken* find(std::int32_t id) const;
  std::int32_t id_limit() const;  // largest id + 1

 private:
  // Leftmost, then longest match over a set of strings.
  class Matcher {
   public:
    void add(std::string_view pattern, std::int32_t id);
    bool empty() const { return nodes_.size() == 1; }
    // Length of the longest pattern that starts at `at`, and its id; 0 for none.
    std::size_t longest(std::string_view text, std::size_t at, std::int32_t* id) const;

   private:
    struct Node {
      std::int32_t id = -1;
      std::unordered_map<char, std::size_t> next;
    };
    std::vector<Node> nodes_{1};
  };

  std::vector<Span> split(const Matcher& matcher, std::string_view text) const;

  std::unordered_map<std::int32_t, AddedToken> tokens_;
  Vocabulary ids_;
  Matcher raw_;
  Matcher normalized_;
};

}  // namespace difflet::text
