// The stages one by one, on rules that the golden files exercise only in passing.
#include <gmock/gmock.h>

#include "difflet/base/error.h"
#include "difflet/text/added_tokens.h"
#include "difflet/text/bpe.h"
#include "difflet/text/charsmap.h"
#include "difflet/text/normalizer.h"
#include "difflet/text/pre_tokenizer.h"
#include "difflet/text/unicode.h"
#include "difflet/text/unigram.h"

namespace difflet::text {
namespace {

using testing::ElementsAre;

TEST(Unicode, FindsWhatIsNotUtf8) {
  EXPECT_EQ(find_invalid_utf8("a\u00e9\u6f22\U0001F600"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2U);
  EXPECT_EQ(find_invalid_utf8("a\xc3"), 1U);
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0U);          // overlong
  EXPECT_EQ(find_invalid_utf8("x\xed\xa0\x80"), 1U);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(repair_utf8("a\xe6\xbc"
                        "b\xff"),
            "a\uFFFDb\uFFFD");
}

TEST(Unicode, LowersEachCodePointByItself) {
  EXPECT_EQ(to_lower("\u03a3\u0391\u03a3"), "\u03c3\u03b1\u03c3");
  EXPECT_EQ(to_lower("\u0130I"), "i\u0307i");
}

TEST(Normalizer, StripsWhiteSpaceOfUnicode) {
  EXPECT_EQ(StripNormalizer({.left = true, .right = true}).apply("\u3000 a b\u0085\n"), "a b");
  EXPECT_EQ(StripNormalizer({.left = false, .right = true}).apply(" a "), " a");
  EXPECT_EQ(StripNormalizer({.left = true, .right = true}).apply(" \n "), "");
}

TEST(PreTokenizer, ByteCharacters) {
  EXPECT_EQ(bytes_to_characters("a \xc3\xa9"), "a\u0120\u00c3\u00a9");
  std::string bytes;
  append_characters_as_bytes("a\u0120\u00c3\u00a9", &bytes);
  append_characters_as_bytes("\u6f22", &bytes);  // stands for no byte
  EXPECT_EQ(bytes, "a \xc3\xa9\u6f22");
}

std::vector<std::string> pieces(const PreTokenizer& stage, std::string text) {
  std::vector<std::string> out;
  for (const Piece& piece : stage.split({{std::move(text), true}})) {
    out.push_back(piece.text);
  }
  return out;
}

TEST(PreTokenizer, Metaspace) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  EXPECT_THAT(pieces(MetaspacePreTokenizer({}), "a  b"), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(pieces(MetaspacePreTokenizer({}), " a"), ElementsAre("▁a"));
  EXPECT_THAT(pieces(MetaspacePreTokenizer({.prepend = Prepend::Never, .split = false}), "a b"),
              ElementsAre("a▁b"));
  EXPECT_TRUE(pieces(MetaspacePreTokenizer({}), "").empty());
}

// "x", "xy" and "xyz" under their bytes, and what they become; the trie is laid out by hand.
std::string small_charsmap() {
  // Unit: offset << 10 | leaf << 8 | label. Node 0 -> children at offset ^ byte.
  std::vector<std::uint32_t> trie(512, 0x80000000U | 0xFFU);
  trie[0] = 256U << 10U;  // children of the root at 256 ^ byte
  trie[256 ^ 'x'] = ((256U ^ 'x' ^ 1U) << 10U) | (1U << 8U) | 'x';
  trie[1] = 0x80000000U | 2U;  // value of "x": replacement at 2
  trie[1 ^ 'y'] = ((1U ^ 'y' ^ 300U) << 10U) | (1U << 8U) | 'y';
  trie[300] = 0x80000000U | 0U;  // value of "xy"
  std::string data;
  const auto put = [&data](std::uint32_t v) {
    for (unsigned i = 0; i < 4; ++i) {
      data += static_cast<char>((v >> (8 * i)) & 0xFFU);
    }
  };
  put(static_cast<std::uint32_t>(trie.size() * 4));
  for (const std::uint32_t unit : trie) {
    put(unit);
  }
  return data + std::string("b\0a\0", 4);
}

TEST(Charsmap, TakesTheShortestPrefixAndDropsTheRestOfTheCluster) {
  const Charsmap map(small_charsmap(), "test");
  EXPECT_EQ(map.apply("x"), "a");
  EXPECT_EQ(map.apply("xy"), "ay");        // two clusters
  EXPECT_EQ(map.apply("x\u0301y"), "ay");  // the mark belongs to the cluster of x
  EXPECT_EQ(map.apply("x\u0301\u0302\u0303z"), "a\u0301\u0302\u0303z");  // 7 bytes: one by one
}

TEST(Charsmap, RefusesDamagedData) {
  const std::string good = small_charsmap();
  EXPECT_THROW(Charsmap("", "test"), Error);
  EXPECT_THROW(Charsmap(good.substr(0, 100), "test"), Error);
  EXPECT_THROW(Charsmap(good + "\xff", "test"), Error);
  const Charsmap cut(std::string_view(good).substr(0, good.size() - 4), "test");
  EXPECT_THROW(cut.apply("x"), Error);
  EXPECT_EQ(decode_base64("YWI=", "test"), "ab");
  EXPECT_EQ(decode_base64("", "test"), "");
  EXPECT_THROW(decode_base64("YW=", "test"), Error);
  EXPECT_THROW(decode_base64("YW!=", "test"), Error);
}

Vocabulary numbered(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (const std::string& token : tokens) {
    vocabulary.emplace(token, static_cast<std::int32_t>(vocabulary.size()));
  }
  return vocabulary;
}

Ids run(const Model& model, std::string_view piece) {
  Ids ids;
  model.tokenize(piece, &ids);
  return ids;
}

TEST(Bpe, MergesByRankThenFromTheLeft) {
  const Vocabulary vocabulary = numbered({"a", "b", "aa", "ab", "aab", "b</w>", "ab</w>", "?"});
  const Merges merges = {{"a", "a"}, {"a", "b"}, {"aa", "b"}, {"a", "b</w>"}};
  const BpeModel model(vocabulary, merges, {.unknown_token = "?", .word_suffix = "</w>"}, "test");
  EXPECT_THAT(run(model, "aaab"), ElementsAre(2, 6));
  EXPECT_THAT(run(model, "aaba"), ElementsAre(4, 7));  // "a</w>" is unknown
  EXPECT_THAT(run(model, "xyb"), ElementsAre(7, 7, 5));
}

TEST(Bpe, FusesUnknownAndFallsBackToBytes) {
  const BpeModel fused(numbered({"a", "?"}), {}, {.unknown_token = "?", .fuse_unknown = true},
                       "test");
  EXPECT_THAT(run(fused, "xyaz"), ElementsAre(1, 0, 1));
  const BpeModel bytes(numbered({"a", "?", "<0xC3>", "<0xA9>"}), {},
                       {.unknown_token = "?", .byte_fallback = true}, "test");
  EXPECT_THAT(run(bytes, "a\u00e9x"), ElementsAre(0, 2, 3, 1));
}

TEST(Bpe, RefusesMergesOutsideTheVocabulary) {
  EXPECT_THROW(BpeModel(numbered({"a", "b"}), {{"a", "b"}}, {}, "test"), Error);
  EXPECT_THROW(BpeModel(numbered({"a", "ab"}), {{"a", "b"}}, {}, "test"), Error);
}

TEST(Unigram, FirstOfEqualPathsAndFusedUnknown) {
  // "ab" + "c" and "a" + "bc" score the same: the one that is found first ends later.
  const UnigramModel model({{"?", 0}, {"a", -1}, {"b", -1}, {"c", -1}, {"ab", -1.5}, {"bc", -1.5}},
                           {.unknown_id = 0}, "test");
  EXPECT_THAT(run(model, "abc"), ElementsAre(1, 5));
  EXPECT_THAT(run(model, "xyazz"), ElementsAre(0, 1, 0));
}

TEST(Unigram, FallsBackToBytesAndNeedsAnUnknownToken) {
  const UnigramModel bytes({{"?", 0}, {"<0xC3>", 0}, {"<0xA9>", 0}},
                           {.unknown_id = 0, .byte_fallback = true}, "test");
  EXPECT_THAT(run(bytes, "\u00e9"), ElementsAre(1, 2));
  EXPECT_THAT(run(bytes, "\u00e9x"), ElementsAre(0));
  const UnigramModel none({{"a", 0}}, {}, "test");
  EXPECT_THAT(run(none, "aa"), ElementsAre(0, 0));
  EXPECT_THROW(run(none, "b"), Error);
  EXPECT_THROW(UnigramModel({{"a", 0}}, {.unknown_id = 1}, "test"), Error);
}

std::vector<std::string> spans(const AddedTokens& added, std::string_view text) {
  std::vector<std::string> out;
  for (const Span& span : added.split_raw(text)) {
    std::string& part = out.emplace_back(span.id ? "#" : "");
    part += text.substr(span.begin, span.end - span.begin);
  }
  return out;
}

TEST(AddedTokens, LongestFirstWithFlags) {
  const BpeModel model(numbered({"a", "<m>"}), {}, {}, "test");
  const auto token = [](std::string content, bool word, bool left, bool right) {
    return AddedToken{std::move(content), word, left, right, false, false};
  };
  const AddedTokens added({token("<m>", false, false, false), token("<m>>", false, true, true),
                           token("cat", true, false, false)},
                          model, nullptr);
  EXPECT_EQ(added.id_of("<m>"), 1);
  EXPECT_EQ(added.id_of("<m>>"), 2);
  EXPECT_EQ(added.id_of("cat"), 3);
  EXPECT_THAT(spans(added, "a <m> b"), ElementsAre("a ", "#<m>", " b"));
  EXPECT_THAT(spans(added, "a <m>> b"), ElementsAre("a", "# <m>> ", "b"));
  EXPECT_THAT(spans(added, "cat cats _cat"), ElementsAre("#cat", " cats _cat"));
  EXPECT_TRUE(spans(added, "").empty());
}

TEST(AddedTokens, NormalizedOnesMatchNormalizedText) {
  const BpeModel model(numbered({"a"}), {}, {}, "test");
  const LowercaseNormalizer lower;
  const AddedTokens added({{"<END>", false, false, false, true, true}}, model, &lower);
  EXPECT_EQ(added.split_raw("x<END>").size(), 1U);
  EXPECT_EQ(added.split_normalized("x<end>").size(), 2U);
}

}  // namespace
}  // namespace difflet::text
