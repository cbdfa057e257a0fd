// Token ids against the original libraries (tools/golden/tokenizers.py): equal, line for line.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include "difflet/base/json.h"
#include "difflet/text/tokenizer.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(DIFFLET_SOURCE_DIR) / "tests/golden/tokenizers";

std::vector<Json> read_rows(const std::string& name) {
  std::ifstream file(kFolder / name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) {
    rows.push_back(parse_json(line, name));
  }
  return rows;
}

const std::vector<Json>& texts() {
  static const std::vector<Json> rows = read_rows("text.jsonl");
  return rows;
}

std::string text_of(std::size_t line) { return texts().at(line).get<std::string>(); }

// CLIP's rules ask for Unicode properties. ICU 72 knows Unicode 15 and the Rust libraries 16, so a
// line with a code point that ICU has not assigned may differ.
bool has_unassigned(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (u_charType(static_cast<UChar32>(next_code_point(text, &at))) == U_UNASSIGNED) {
      return true;
    }
  }
  return false;
}

void expect_rows(const Tokenizer& tokenizer, const std::vector<Json>& expected,
                 const std::string& name) {
  ASSERT_EQ(expected.size(), texts().size());
  std::size_t equal = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Ids ids = tokenizer.encode(text_of(i));
    if (ids == expected[i].get<Ids>()) {
      ++equal;
    } else {
      EXPECT_TRUE(has_unassigned(text_of(i)))
          << name << " line " << i + 1 << ": " << texts()[i].dump() << testing::PrintToString(ids);
    }
  }
  testing::Test::RecordProperty("differing_lines", std::to_string(expected.size() - equal));
  EXPECT_GE(equal, expected.size() - 10);
  EXPECT_GE(equal, 2000U);
}

void expect_ids(const Tokenizer& tokenizer, const std::string& name) {
  expect_rows(tokenizer, read_rows(name), name);
}

// Rows of line, length and ids.
void expect_padded(const Tokenizer& tokenizer, const std::string& name) {
  for (const Json& row : read_rows(name)) {
    const auto line = row.at(0).get<std::size_t>();
    const Encoded encoded = tokenizer.encode_padded(text_of(line), row.at(1).get<std::int64_t>());
    if (!has_unassigned(text_of(line))) {
      EXPECT_EQ(encoded.ids, row.at(2).get<Ids>()) << name << " line " << line + 1;
    }
  }
}

// Every seventh line, decoded from its expected ids.
void expect_decoded(const Tokenizer& tokenizer, const std::string& set) {
  const std::vector<Json> ids = read_rows(set + ".ids.jsonl");
  const std::vector<Json> expected = read_rows(set + ".decoded.jsonl");
  ASSERT_EQ(expected.size(), (ids.size() + 6) / 7);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(tokenizer.decode(ids[7 * i].get<Ids>()), expected[i].get<std::string>())
        << set << " line " << 7 * i + 1;
  }
}

TEST(GoldenTokenizers, ClipFromVocabularyAndMerges) {
  const auto tokenizer = open_tokenizer(kFolder / "clip_files");
  EXPECT_EQ(tokenizer->max_length(), 77);
  expect_ids(*tokenizer, "clip.ids.jsonl");
  expect_padded(*tokenizer, "clip.padded.jsonl");
  expect_decoded(*tokenizer, "clip");
}

TEST(GoldenTokenizers, ClipFromTokenizerJson) {
  const auto tokenizer = open_tokenizer(kFolder / "clip_json");
  EXPECT_EQ(tokenizer->max_length(), 77);
  expect_ids(*tokenizer, "clip.ids.jsonl");
  expect_padded(*tokenizer, "clip.padded.jsonl");
  expect_decoded(*tokenizer, "clip");
}

TEST(GoldenTokenizers, ClipFileAsTheTokenizersLibraryRunsIt) {
  expect_ids(*open_tokenizer_file(kFolder / "clip_json/tokenizer.json"), "clip.ids.jsonl");
}

TEST(GoldenTokenizers, T5ClassOnBothLayouts) {
  for (const char* folder : {"t5_layout1", "t5_layout2"}) {
    const auto tokenizer = open_tokenizer(kFolder / folder);
    EXPECT_EQ(tokenizer->max_length(), 512);
    expect_ids(*tokenizer, "t5.ids.jsonl");
    expect_padded(*tokenizer, "t5.padded.jsonl");
    expect_decoded(*tokenizer, "t5");
  }
}

TEST(GoldenTokenizers, T5FilesAsTheTokenizersLibraryRunsThem) {
  expect_ids(*open_tokenizer_file(kFolder / "t5_layout2/tokenizer.json"), "t5.ids.jsonl");
  const auto layout1 = open_tokenizer_file(kFolder / "t5_layout1/tokenizer.json");
  std::vector<Json> expected = read_rows("t5.ids.jsonl");
  for (const Json& row : read_rows("t5_layout1_file.differs.jsonl")) {
    expected.at(row.at(0).get<std::size_t>()) = row.at(1);
  }
  expect_rows(*layout1, expected, "t5_layout1_file.differs.jsonl");
}

// transformers runs spiece.model with the rules of the class as well.
TEST(GoldenTokenizers, T5FromSentencePieceModel) {
  const auto tokenizer = open_tokenizer(kFolder / "t5_spiece");
  EXPECT_EQ(tokenizer->max_length(), 512);
  expect_ids(*tokenizer, "t5.ids.jsonl");
  expect_padded(*tokenizer, "t5.padded.jsonl");
  expect_decoded(*tokenizer, "t5");
}

// Long prompts cost no more than linearly; the limits are far above what an optimized build takes.
TEST(GoldenTokenizers, LongTextsAreQuick) {
  std::string words;
  std::string word;
  for (int i = 0; i < 10000; ++i) {
    words += i % 3 == 0 ? "photograph " : i % 3 == 1 ? "xqzjk " : "horse, ";
    word += "abcdefghij";
  }
  for (const char* folder : {"clip_files", "t5_layout1", "t5_spiece"}) {
    const auto tokenizer = open_tokenizer(kFolder / folder);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_GT(tokenizer->encode(words).size(), 10000U);
    EXPECT_GT(tokenizer->encode(word).size(), 10000U);
    EXPECT_GT(tokenizer->encode(std::string(100000, 'a')).size(), 10U);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    RecordProperty(std::string(folder) + "_seconds", std::to_string(seconds.count()));
    EXPECT_LT(seconds.count(), 20.0) << folder;
  }
}

}  // namespace
}  // namespace difflet::text
