#include "difflet/bench/synthetic_tokenizers.h"

#include <string>
#include <vector>

#include <fmt/format.h>

namespace difflet::bench {
namespace {

// UTF-8 of a code point below 0x800.
std::string utf8(unsigned code) {
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xc0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3fU))};
}

// The characters that stand for the 256 bytes in byte-level BPE: printable Latin-1 for itself, the
// others from U+0100 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> out;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    out.push_back(utf8(printable ? byte : next++));
  }
  return out;
}

Json added_token(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json metaspace() {
  return {{"type", "Metaspace"},
          {"replacement", "\u2581"},
          {"prepend_scheme", "always"},
          {"split", true}};
}

Json end_of_text() {
  return Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                      {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}});
}

}  // namespace

Json clip_tokenizer() {
  Json vocabulary = Json::object();
  std::int64_t id = 0;
  for (const char* suffix : {"", "</w>"}) {
    for (const std::string& character : byte_alphabet()) {
      vocabulary[character + suffix] = id++;
    }
  }
  vocabulary["<|startoftext|>"] = kClipBos;
  vocabulary["<|endoftext|>"] = kClipEos;
  constexpr const char* kWords =
      R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {added_token(kClipBos, "<|startoftext|>"), added_token(kClipEos, "<|endoftext|>")}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "NFC"}},
              {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
              {{"type", "Lowercase"}}}}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", kWords}}},
               {"behavior", "Removed"},
               {"invert", true}},
              {{"type", "ByteLevel"},
               {"add_prefix_space", false},
               {"trim_offsets", true},
               {"use_regex", true}}}}}},
          {"post_processor",
           {{"type", "RobertaProcessing"},
            {"sep", Json::array({"<|endoftext|>", kClipEos})},
            {"cls", Json::array({"<|startoftext|>", kClipBos})},
            {"trim_offsets", false},
            {"add_prefix_space", false}}},
          {"decoder",
           {{"type", "ByteLevel"},
            {"add_prefix_space", true},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<|endoftext|>"},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", "</w>"},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", Json::array()}}}};
}

Json clip_tokenizer_config() {
  return {{"bos_token", "<|startoftext|>"}, {"eos_token", "<|endoftext|>"},
          {"model_max_length", 77},         {"pad_token", "<|endoftext|>"},
          {"padding_side", "right"},        {"tokenizer_class", "CLIPTokenizer"},
          {"truncation_side", "right"},     {"unk_token", "<|endoftext|>"}};
}

Json t5_tokenizer() {
  Json vocabulary = Json::array();
  const auto add = [&](const std::string& piece, double score) {
    vocabulary.push_back(Json::array({piece, score}));
    return static_cast<std::int64_t>(vocabulary.size()) - 1;
  };
  Json added = Json::array();
  for (const char* special : {"<pad>", "</s>", "<unk>"}) {
    added.push_back(added_token(add(special, 0), special));
  }
  add("\u2581", -2);
  for (char c = '!'; c <= '~'; ++c) {
    add({c}, -3);
  }
  constexpr int kExtra = 100;  // the tokens that T5's training masks spans with, highest first
  for (int i = kExtra - 1; i >= 0; --i) {
    const std::string name = fmt::format("<extra_id_{}>", i);
    added.push_back(added_token(add(name, 0), name));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace()}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", end_of_text()},
            {"pair", end_of_text()},
            {"special_tokens", {{"</s>", {{"id", "</s>"}, {"ids", {1}}, {"tokens", {"</s>"}}}}}}}},
          {"decoder", metaspace()},
          {"model",
           {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocabulary}, {"byte_fallback", false}}}};
}

Json t5_tokenizer_config() {
  return {{"eos_token", "</s>"},
          {"extra_ids", 100},
          {"model_max_length", 512},
          {"pad_token", "<pad>"},
          {"tokenizer_class", "T5Tokenizer"},
          {"unk_token", "<unk>"}};
}

}  // namespace difflet::bench
