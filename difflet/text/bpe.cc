#include "difflet/text/bpe.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
         static_cast<std::uint32_t>(right);
}

// A merge that was possible when it was queued; the lowest rank goes first, then the leftmost.
struct Candidate {
  std::int32_t rank = 0;
  std::int32_t at = 0;
  std::int32_t id = 0;
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.rank, a.at) > std::tie(b.rank, b.at);
  }
};

constexpr std::int32_t kNone = -1;

struct Symbol {
  std::int32_t id = kNone;  // kNone once merged into the symbol before
  std::int32_t previous = kNone;
  std::int32_t next = kNone;
};

}  // namespace

std::string byte_token(unsigned char b) { return fmt::format("<0x{:02X}>", b); }

BpeModel::BpeModel(Vocabulary vocabulary, const Merges& merges, BpeOptions options,
                   std::string_view origin)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (const auto& [token, id] : vocabulary_) {
    tokens_.emplace(id, token);
    id_limit_ = std::max(id_limit_, id + 1);
  }
  merges_.reserve(merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const auto left_id = id_of(left);
    const auto right_id = id_of(right);
    const bool prefixed = right.starts_with(options_.word_prefix);
    const auto id = id_of(left + right.substr(prefixed ? options_.word_prefix.size() : 0));
    check(left_id && right_id && id && prefixed, ErrorCode::DataLoss,
          "{}: merge {} ('{}' and '{}') does not join two tokens of the vocabulary into a third",
          origin, rank + 1, left, right);
    merges_.insert_or_assign(pair_key(*left_id, *right_id), Merged{rank, *id});
    ++rank;
  }
  if (options_.unknown_token) {
    unknown_ = id_of(*options_.unknown_token);
  }
}

std::optional<std::int32_t> BpeModel::id_of(std::string_view token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> BpeModel::token_of(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

std::int32_t BpeModel::token_count() const { return static_cast<std::int32_t>(vocabulary_.size()); }

std::int32_t BpeModel::id_limit() const { return id_limit_; }

const BpeModel::Merged* BpeModel::find_merge(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

bool BpeModel::append_bytes(std::string_view symbol, Ids* out) const {
  Ids ids;
  for (const char c : symbol) {
    const auto id = id_of(byte_token(static_cast<unsigned char>(c)));
    if (!id) {
      return false;
    }
    ids.push_back(*id);
  }
  out->insert(out->end(), ids.begin(), ids.end());
  return true;
}

// One id for each code point. A symbol that the vocabulary lacks is unknown, and without an unknown
// token it is dropped.
Ids BpeModel::symbols(std::string_view piece) const {
  Ids out;
  bool unknown_pending = false;  // flushed late, so that bytes overtake it as in the original
  const auto flush = [&] {
    if (unknown_pending) {
      out.push_back(*unknown_);
      unknown_pending = false;
    }
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t begin = at;
    next_code_point(piece, &at);
    std::string symbol = begin == 0 ? "" : options_.word_prefix;
    symbol += piece.substr(begin, at - begin);
    if (at == piece.size()) {
      symbol += options_.word_suffix;
    }
    if (const auto id = id_of(symbol)) {
      flush();
      out.push_back(*id);
    } else if (options_.byte_fallback && append_bytes(symbol, &out)) {
      continue;
    } else if (options_.unknown_token) {
      check(unknown_.has_value(), ErrorCode::DataLoss,
            "the unknown token '{}' of the tokenizer is not in its vocabulary",
            *options_.unknown_token);
      if (!options_.fuse_unknown) {
        flush();
      }
      unknown_pending = true;
    }
  }
  flush();
  return out;
}

void BpeModel::merge(Ids ids, Ids* out) const {
  std::vector<Symbol> chain(ids.size());
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue;
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left == kNone || right == kNone) {
      return;
    }
    const Merged* merged = find_merge(chain[static_cast<std::size_t>(left)].id,
                                      chain[static_cast<std::size_t>(right)].id);
    if (merged != nullptr) {
      queue.push({merged->rank, left, merged->id});
    }
  };
  const auto count = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    chain[static_cast<std::size_t>(i)] = {ids[static_cast<std::size_t>(i)], i - 1,
                                          i + 1 < count ? i + 1 : kNone};
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) {
    offer(i, i + 1);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = chain[static_cast<std::size_t>(best.at)];
    if (left.id == kNone || left.next == kNone) {
      continue;
    }
    Symbol& right = chain[static_cast<std::size_t>(left.next)];
    // One of the two may have changed since; a pair that gives the same token is as good.
    const Merged* now = find_merge(left.id, right.id);
    if (now == nullptr || now->id != best.id) {
      continue;
    }
    left.id = best.id;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) {
      chain[static_cast<std::size_t>(left.next)].previous = best.at;
    }
    offer(left.previous, best.at);
    offer(best.at, left.next);
  }
  for (const Symbol& symbol : chain) {
    if (symbol.id != kNone) {
      out->push_back(symbol.id);
    }
  }
}

void BpeModel::tokenize(std::string_view piece, Ids* out) const {
  if (options_.ignore_merges) {
    if (const auto id = id_of(piece)) {
      out->push_back(*id);
      return;
    }
  }
  merge(symbols(piece), out);
}

}  // namespace difflet::text
