#include "difflet/text/pattern.h"

#include <gmock/gmock.h>

namespace difflet::text {
namespace {

std::vector<std::string> matches(const Pattern& pattern, std::string_view text) {
  std::vector<std::string> out;
  for (const Match& match : find_all(pattern, text)) {
    out.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return out;
}

using testing::ElementsAre;

TEST(Pattern, Clip) {
  const Pattern clip = known_regex(clip_regex()).value();
  EXPECT_THAT(matches(clip, "it's 12 a-b!"), ElementsAre("it", "'s", "1", "2", "a", "-", "b", "!"));
  // A combining mark is neither letter nor number; the apostrophe goes with the marks before it.
  EXPECT_THAT(matches(clip, "q\u0301x !!'s"), ElementsAre("q", "\u0301", "x", "!!'", "s"));
  EXPECT_THAT(matches(clip, "a<|endoftext|>b"), ElementsAre("a", "<|endoftext|>", "b"));
  EXPECT_THAT(matches(clip, " \t\u0085\u00a0"), ElementsAre());
  EXPECT_THAT(matches(clip, "\u200b\x1c"), ElementsAre("\u200b\x1c"));
}

TEST(Pattern, Gpt2) {
  EXPECT_THAT(matches(match_gpt2, "it's a  test 12!? "),
              ElementsAre("it", "'s", " a", " ", " test", " 12", "!?", " "));
  EXPECT_THAT(matches(match_gpt2, "a \n b\n"), ElementsAre("a", " \n", " b", "\n"));
  EXPECT_THAT(matches(match_gpt2, "\tb"), ElementsAre("\t", "b"));
}

TEST(Pattern, Spaces) {
  EXPECT_THAT(matches(known_regex(" {2,}").value(), "a b  c   "), ElementsAre("  ", "   "));
  EXPECT_THAT(matches(known_regex(R"(\s+)").value(), "a \n\u2028b"), ElementsAre(" \n\u2028"));
  EXPECT_FALSE(known_regex("x+").has_value());
  EXPECT_THAT(matches(literal_pattern("ab"), "abab aab"), ElementsAre("ab", "ab", "ab"));
}

}  // namespace
}  // namespace difflet::text
