// Whole tokenizers from small files: limits, padding, and what is refused.
#include "difflet/text/tokenizer.h"

#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>

#include "difflet/base/error.h"

namespace difflet::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("difflet_{}_{}", test->name(), getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  // Letters and their ends of words, one merge, the special tokens.
  void write_clip() const {
    write("vocab.json",
          R"({"a": 0, "b": 1, "a</w>": 2, "b</w>": 3, "ab</w>": 4, "<|startoftext|>": 5,
              "<|endoftext|>": 6})");
    write("merges.txt", "#version: 0.2\na b</w>\n");
    write("tokenizer_config.json",
          R"({"model_max_length": 77, "tokenizer_class": "CLIPTokenizer"})");
  }
  ErrorCode error_of(std::string* message = nullptr) const {
    try {
      open_tokenizer(folder_)->encode("ab");
    } catch (const Error& e) {
      if (message != nullptr) {
        *message = e.message();
      }
      return e.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::Internal;
  }

  std::filesystem::path folder_;
};

TEST_F(TokenizerFolder, ClipPadsTruncatesAndNamesWhatItDropped) {
  write_clip();
  const auto tokenizer = open_tokenizer(folder_);
  EXPECT_EQ(tokenizer->vocab_size(), 7);
  EXPECT_EQ(tokenizer->max_length(), 77);
  EXPECT_THAT(tokenizer->encode("AB  b"), ElementsAre(5, 4, 3, 6));
  EXPECT_THAT(tokenizer->encode(""), ElementsAre(5, 6));
  const Encoded padded = tokenizer->encode_padded("ab", 5);
  EXPECT_THAT(padded.ids, ElementsAre(5, 4, 6, 6, 6));
  EXPECT_EQ(padded.dropped, "");
  const Encoded cut = tokenizer->encode_padded("ab a b ab", 4);
  EXPECT_THAT(cut.ids, ElementsAre(5, 4, 2, 6));
  EXPECT_EQ(cut.dropped, "b ab");
  EXPECT_EQ(tokenizer->decode({5, 4, 3, 6}), "ab b");
  EXPECT_THROW(tokenizer->encode_padded("a", 1), Error);
}

TEST_F(TokenizerFolder, InvalidTextIsRefusedWithItsOffset) {
  write_clip();
  try {
    open_tokenizer(folder_)->encode("ab\xff");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
    EXPECT_THAT(e.message(), HasSubstr("byte 2"));
  }
}

TEST_F(TokenizerFolder, DamagedFiles) {
  std::string message;
  EXPECT_EQ(error_of(), ErrorCode::NotFound);
  write_clip();
  write("merges.txt", "#version: 0.2\na b</w>\na\n");
  EXPECT_EQ(error_of(&message), ErrorCode::DataLoss);
  EXPECT_THAT(message, HasSubstr("merges.txt:3"));
  write("merges.txt", "a a\n");
  EXPECT_EQ(error_of(), ErrorCode::DataLoss);
  write("merges.txt", "");
  write("vocab.json", R"({"a": -1})");
  EXPECT_EQ(error_of(), ErrorCode::DataLoss);
  write("vocab.json", R"({"a": 0})");
  EXPECT_EQ(error_of(&message), ErrorCode::DataLoss);
  EXPECT_THAT(message, HasSubstr("unknown token '<|endoftext|>'"));
}

TEST_F(TokenizerFolder, UnknownKindsAreNamed) {
  std::string message;
  write("tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  EXPECT_EQ(error_of(&message), ErrorCode::Unsupported);
  EXPECT_THAT(message, HasSubstr("WordPiece"));
  EXPECT_THAT(message, HasSubstr("tokenizer.json"));
  const std::string_view model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  write("tokenizer.json", fmt::format(R"({{{}, "normalizer": {{"type": "NFD"}}}})", model));
  EXPECT_EQ(error_of(&message), ErrorCode::Unsupported);
  EXPECT_THAT(message, HasSubstr("'NFD'"));
  write("tokenizer.json", fmt::format(R"({{{}, "pre_tokenizer": {{"type": "Digits"}}}})", model));
  EXPECT_EQ(error_of(&message), ErrorCode::Unsupported);
  EXPECT_THAT(message, HasSubstr("'Digits'"));
  write("tokenizer.json",
        fmt::format(R"({{{}, "pre_tokenizer": {{"type": "Split", "behavior": "Isolated",
                     "pattern": {{"Regex": "x+"}}, "invert": false}}}})",
                    model));
  EXPECT_EQ(error_of(&message), ErrorCode::Unsupported);
  EXPECT_THAT(message, HasSubstr("'x+'"));
}

TEST_F(TokenizerFolder, ClassNameDecidesTheStages) {
  // Without a class the vocabulary decides: scores mean T5, whose text is cut at white space.
  write("tokenizer.json", R"({"model": {"type": "Unigram", "unk_id": 2, "vocab": [["<pad>", 0],
      ["</s>", 0], ["<unk>", 0], ["a b", -1], ["▁a", -1], ["▁b", -1]]}})");
  EXPECT_THAT(open_tokenizer(folder_)->encode("a b"), ElementsAre(4, 5, 1));
  EXPECT_THAT(open_tokenizer(folder_, "T5TokenizerFast")->encode("a b"), ElementsAre(4, 5, 1));
  EXPECT_THAT(open_tokenizer(folder_, "PreTrainedTokenizerFast")->encode("a b"), ElementsAre(3));
  EXPECT_THAT(open_tokenizer_file(folder_ / "tokenizer.json")->encode("a b"), ElementsAre(3));
  EXPECT_THAT(open_tokenizer(folder_)->encode_padded("a", 4).ids, ElementsAre(4, 1, 0, 0));
  EXPECT_EQ(open_tokenizer(folder_)->max_length(), 0);
  EXPECT_THROW(open_tokenizer_file(folder_ / "tokenizer.json")->encode_padded("a b", 3), Error);
}

TEST_F(TokenizerFolder, PostProcessorOfTheFile) {
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "x": 1}, "merges": []},
      "post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {"x": {"id": "x", "ids": [1], "tokens": ["x"]}}}})");
  EXPECT_THAT(open_tokenizer(folder_)->encode("aa"), ElementsAre(1, 0, 0));
}

TEST_F(TokenizerFolder, DamagedSentencePieceModel) {
  write("spiece.model", "not a model");
  EXPECT_EQ(error_of(), ErrorCode::DataLoss);
  write("spiece.model", "");
  EXPECT_EQ(error_of(), ErrorCode::DataLoss);
}

}  // namespace
}  // namespace difflet::text
