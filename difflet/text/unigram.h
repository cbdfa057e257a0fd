// The unigram language model of sentencepiece, with the arithmetic of the tokenizers library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/text/model.h"

namespace difflet::text {

struct ScoredToken {
  std::string token;
  double score = 0;  // log-probability
};

struct UnigramOptions {
  std::optional<std::int32_t> unknown_id;
  bool byte_fallback = false;
};

class UnigramModel final : public Model {
 public:
  // The id of a token is its place; of equal tokens the last one counts. `origin` names the file.
  UnigramModel(std::vector<ScoredToken> tokens, UnigramOptions options, std::string_view origin);

  void tokenize(std::string_view piece, Ids* out) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::string_view> token_of(std::int32_t id) const override;
  std::int32_t token_count() const override;
  std::int32_t id_limit() const override { return token_count(); }

 private:
  // Children of a node lie side by side, in the order of their bytes.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    unsigned char byte = 0;
    std::int32_t id = -1;  // of the token that ends here
  };
  struct Best {
    double score = 0;         // of the best path to here
    std::int64_t begin = -1;  // of its last token; -1 when nothing ends here
    std::int32_t id = -1;
  };

  void build_trie();
  const Node* child(const Node& node, unsigned char byte) const;
  void relax(Best* target, double score, std::size_t begin, std::int32_t id) const;
  std::vector<Best> best_paths(std::string_view piece) const;
  void append_token(std::string_view token, Ids* out) const;

  std::vector<ScoredToken> tokens_;
  Vocabulary ids_;
  std::vector<Node> nodes_;
  UnigramOptions options_;
  double unknown_score_ = 0;
};

}  // namespace difflet::text
