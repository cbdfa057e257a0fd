#include "difflet/text/unigram.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(std::vector<ScoredToken> tokens, UnigramOptions options,
                           std::string_view origin)
    : tokens_(std::move(tokens)), options_(options) {
  check(!options_.unknown_id || (*options_.unknown_id >= 0 && *options_.unknown_id < token_count()),
        ErrorCode::DataLoss, "{}: the unknown token has id {}, but there are {} tokens", origin,
        options_.unknown_id.value_or(0), tokens_.size());
  double lowest = std::numeric_limits<double>::infinity();
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    ids_.insert_or_assign(tokens_[i].token, static_cast<std::int32_t>(i));
    lowest = std::min(lowest, tokens_[i].score);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  build_trie();
}

// Breadth first over the sorted tokens: a node stands for a range of them with a common prefix.
void UnigramModel::build_trie() {
  struct Range {
    std::size_t node;
    std::size_t begin;
    std::size_t end;
    std::size_t depth;
  };
  std::vector<std::string_view> sorted;
  sorted.reserve(ids_.size());
  for (const auto& [token, id] : ids_) {
    sorted.push_back(token);
  }
  std::sort(sorted.begin(), sorted.end());
  nodes_.emplace_back();
  std::vector<Range> todo = {{0, 0, sorted.size(), 0}};
  for (std::size_t i = 0; i < todo.size(); ++i) {
    const Range range = todo[i];
    std::size_t at = range.begin;
    if (at < range.end && sorted[at].size() == range.depth) {
      nodes_[range.node].id = ids_.find(sorted[at])->second;
      ++at;
    }
    nodes_[range.node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (at < range.end) {
      const std::size_t begin = at;
      const char byte = sorted[at][range.depth];
      while (at < range.end && sorted[at][range.depth] == byte) {
        ++at;
      }
      todo.push_back({nodes_.size(), begin, at, range.depth + 1});
      nodes_.emplace_back().byte = static_cast<unsigned char>(byte);
      ++nodes_[range.node].children;
    }
  }
}

const UnigramModel::Node* UnigramModel::child(const Node& node, unsigned char byte) const {
  const Node* begin = nodes_.data() + node.first_child;
  const Node* end = begin + node.children;
  const Node* found = std::lower_bound(
      begin, end, byte, [](const Node& n, unsigned char value) { return n.byte < value; });
  return found != end && found->byte == byte ? found : nullptr;
}

std::optional<std::int32_t> UnigramModel::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> UnigramModel::token_of(std::int32_t id) const {
  if (id < 0 || id >= token_count()) {
    return std::nullopt;
  }
  return tokens_[static_cast<std::size_t>(id)].token;
}

std::int32_t UnigramModel::token_count() const { return static_cast<std::int32_t>(tokens_.size()); }

// Of equal paths the first one found stays, the one with the earliest begin.
void UnigramModel::relax(Best* target, double score, std::size_t begin, std::int32_t id) const {
  if (target->begin < 0 || score > target->score) {
    *target = {score, static_cast<std::int64_t>(begin), id};
  }
}

std::vector<UnigramModel::Best> UnigramModel::best_paths(std::string_view piece) const {
  std::vector<Best> best(piece.size() + 1);
  for (std::size_t begin = 0; begin < piece.size();) {
    std::size_t next = begin;
    next_code_point(piece, &next);
    const double here = best[begin].score;
    bool has_single = false;  // a token that is this one code point
    const Node* node = nodes_.data();
    for (std::size_t end = begin; end < piece.size();) {
      node = child(*node, static_cast<unsigned char>(piece[end]));
      if (node == nullptr) {
        break;
      }
      ++end;
      if (node->id >= 0) {
        const double score = tokens_[static_cast<std::size_t>(node->id)].score;
        relax(&best[end], score + here, begin, node->id);
        has_single = has_single || end == next;
      }
    }
    if (!has_single) {
      check(options_.unknown_id.has_value(), ErrorCode::Unsupported,
            "the tokenizer has no unknown token, and no token covers '{}'",
            piece.substr(begin, next - begin));
      relax(&best[next], unknown_score_ + here, begin, *options_.unknown_id);
    }
    begin = next;
  }
  return best;
}

void UnigramModel::append_token(std::string_view token, Ids* out) const {
  if (const auto id = id_of(token)) {
    out->push_back(*id);
    return;
  }
  if (options_.byte_fallback) {
    Ids bytes;
    for (const char c : token) {
      if (const auto id = id_of(byte_token(static_cast<unsigned char>(c)))) {
        bytes.push_back(*id);
      }
    }
    if (bytes.size() == token.size()) {
      out->insert(out->end(), bytes.begin(), bytes.end());
      return;
    }
  }
  check(options_.unknown_id.has_value(), ErrorCode::Unsupported,
        "the tokenizer has no unknown token, and no token covers '{}'", token);
  out->push_back(*options_.unknown_id);
}

void UnigramModel::tokenize(std::string_view piece, Ids* out) const {
  const std::vector<Best> best = best_paths(piece);
  std::vector<std::string_view> tokens;  // from the end
  for (std::size_t end = piece.size(); end > 0;) {
    const std::int32_t id = best[end].id;
    auto begin = static_cast<std::size_t>(best[end].begin);
    // Unknown characters side by side are one token.
    while (id == options_.unknown_id && begin > 0 && best[begin].id == id) {
      begin = static_cast<std::size_t>(best[begin].begin);
    }
    tokens.push_back(piece.substr(begin, end - begin));
    end = begin;
  }
  std::reverse(tokens.begin(), tokens.end());
  for (const std::string_view token : tokens) {
    append_token(token, out);
  }
}

}  // namespace difflet::text
