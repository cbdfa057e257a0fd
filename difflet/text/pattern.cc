#include "difflet/text/pattern.h"

#include <array>
#include <utility>

#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

constexpr std::string_view kClip =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr std::string_view kClipWithoutSpecials =
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

using Property = bool (*)(char32_t);

bool is_other(char32_t c) { return !is_white_space(c) && !is_letter(c) && !is_number(c); }

// End of the run of code points with the property that starts at `at`.
std::size_t run_end(std::string_view text, std::size_t at, Property property) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!property(next_code_point(text, &next))) {
      break;
    }
    at = next;
  }
  return at;
}

// 's 't 're 've 'm 'll 'd
std::size_t match_contraction(std::string_view text, std::size_t at) {
  constexpr std::array<std::string_view, 7> kEndings = {"'s", "'t",  "'re", "'ve",
                                                        "'m", "'ll", "'d"};
  for (const std::string_view ending : kEndings) {
    if (text.substr(at).starts_with(ending)) {
      return at + ending.size();
    }
  }
  return at;
}

std::size_t match_clip_words(std::string_view text, std::size_t at) {
  if (const std::size_t end = match_contraction(text, at); end != at) {
    return end;
  }
  if (const std::size_t end = run_end(text, at, is_letter); end != at) {
    return end;
  }
  std::size_t next = at;
  if (is_number(next_code_point(text, &next))) {
    return next;
  }
  return run_end(text, at, is_other);
}

std::size_t match_clip(std::string_view text, std::size_t at) {
  for (const std::string_view special : {"<|startoftext|>", "<|endoftext|>"}) {
    if (text.substr(at).starts_with(special)) {
      return at + special.size();
    }
  }
  return match_clip_words(text, at);
}

std::size_t match_white_space(std::string_view text, std::size_t at) {
  return run_end(text, at, is_white_space);
}

std::size_t match_two_spaces(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
  return end - at >= 2 ? end : at;
}

}  // namespace

std::string_view clip_regex() { return kClip; }

std::optional<Pattern> known_regex(std::string_view regex) {
  static constexpr std::array<
      std::pair<std::string_view, std::size_t (*)(std::string_view, std::size_t)>, 4>
      kTable = {{{R"(\s+)", match_white_space},
                 {" {2,}", match_two_spaces},
                 {kClip, match_clip},
                 {kClipWithoutSpecials, match_clip_words}}};
  for (const auto& [text, match] : kTable) {
    if (text == regex) {
      return Pattern(match);
    }
  }
  return std::nullopt;
}

Pattern literal_pattern(std::string literal) {
  return [literal = std::move(literal)](std::string_view text, std::size_t at) {
    return text.substr(at).starts_with(literal) ? at + literal.size() : at;
  };
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t match_gpt2(std::string_view text, std::size_t at) {
  if (const std::size_t end = match_contraction(text, at); end != at) {
    return end;
  }
  const std::size_t word = text[at] == ' ' ? at + 1 : at;
  for (const Property property : {is_letter, is_number, is_other}) {
    if (const std::size_t end = run_end(text, word, property); end != word) {
      return end;
    }
  }
  // White space before a word leaves its last code point to that word, unless it is the only one.
  const std::size_t end = run_end(text, at, is_white_space);
  if (end == text.size()) {
    return end;
  }
  const std::size_t last = previous_offset(text, end);
  return last > at ? last : end;
}

std::vector<Match> find_all(const Pattern& pattern, std::string_view text) {
  std::vector<Match> matches;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pattern(text, at);
    if (end > at) {
      matches.push_back({at, end});
      at = end;
    } else {
      next_code_point(text, &at);
    }
  }
  return matches;
}

}  // namespace difflet::text
