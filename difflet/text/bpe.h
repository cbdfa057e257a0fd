// Byte pair encoding over a vocabulary and ranked merges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "difflet/text/model.h"

namespace difflet::text {

struct BpeOptions {
  std::optional<std::string> unknown_token{};
  std::string word_prefix{};  // continuing_subword_prefix
  std::string word_suffix{};  // end_of_word_suffix, "</w>" in CLIP
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token stays whole
};

using Merges = std::vector<std::pair<std::string, std::string>>;

class BpeModel final : public Model {
 public:
  // `origin` names the file in errors; DataLoss when a merge does not join two tokens into one.
  BpeModel(Vocabulary vocabulary, const Merges& merges, BpeOptions options,
           std::string_view origin);

  void tokenize(std::string_view piece, Ids* out) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::string_view> token_of(std::int32_t id) const override;
  std::int32_t token_count() const override;
  std::int32_t id_limit() const override;

 private:
  struct Merged {
    std::int32_t rank = 0;
    std::int32_t id = 0;
  };

  const Merged* find_merge(std::int32_t left, std::int32_t right) const;
  Ids symbols(std::string_view piece) const;
  bool append_bytes(std::string_view symbol, Ids* out) const;
  void merge(Ids symbols, Ids* out) const;

  Vocabulary vocabulary_;
  std::unordered_map<std::int32_t, std::string_view> tokens_;  // into the keys of vocabulary_
  std::unordered_map<std::uint64_t, Merged> merges_;           // key: left id << 32 | right id
  BpeOptions options_;
  std::optional<std::int32_t> unknown_;
  std::int32_t id_limit_ = 0;
};

}  // namespace difflet::text
