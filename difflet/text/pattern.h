// The regular expressions of tokenizer files that this build knows, matched by hand.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::text {

// End of the match that starts at `at`, or `at` when there is none. Never matches emptily.
using Pattern = std::function<std::size_t(std::string_view text, std::size_t at)>;

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Nothing for an expression that is not in the table.
std::optional<Pattern> known_regex(std::string_view regex);
Pattern literal_pattern(std::string literal);
// GPT-2's expression, which the byte-level pre-tokenizer has built in.
std::size_t match_gpt2(std::string_view text, std::size_t at);
// CLIP's expression with its two special tokens (transformers, CLIPTokenizer).
std::string_view clip_regex();

// Matches from left to right without overlap.
std::vector<Match> find_all(const Pattern& pattern, std::string_view text);

}  // namespace difflet::text
