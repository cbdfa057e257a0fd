#include "difflet/text/added_tokens.h"

#include <algorithm>

#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t at = previous_offset(text, begin);
    if (is_word(next_code_point(text, &at))) {
      return true;
    }
  }
  std::size_t at = end;
  return end < text.size() && is_word(next_code_point(text, &at));
}

std::size_t white_space_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t previous = previous_offset(text, end);
    std::size_t at = previous;
    if (!is_white_space(next_code_point(text, &at))) {
      break;
    }
    end = previous;
  }
  return end;
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_white_space(next_code_point(text, &next))) {
      break;
    }
    begin = next;
  }
  return begin;
}

}  // namespace

void AddedTokens::Matcher::add(std::string_view pattern, std::int32_t id) {
  std::size_t node = 0;
  for (const char c : pattern) {
    const auto [edge, is_new] = nodes_[node].next.try_emplace(c, nodes_.size());
    node = edge->second;
    if (is_new) {
      nodes_.emplace_back();
    }
  }
  nodes_[node].id = id;
}

std::size_t AddedTokens::Matcher::longest(std::string_view text, std::size_t at,
                                          std::int32_t* id) const {
  std::size_t length = 0;
  std::size_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto edge = nodes_[node].next.find(text[i]);
    if (edge == nodes_[node].next.end()) {
      break;
    }
    node = edge->second;
    if (nodes_[node].id >= 0) {
      *id = nodes_[node].id;
      length = i + 1 - at;
    }
  }
  return length;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Model& model,
                         const Normalizer* normalizer) {
  std::int32_t next_id = model.token_count();
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) {
      continue;
    }
    auto id = id_of(token.content);
    if (!id) {
      id = model.id_of(token.content);
    }
    if (!id) {
      id = next_id++;
    }
    ids_.insert_or_assign(token.content, *id);
    tokens_.insert_or_assign(*id, token);
  }
  for (const auto& [id, token] : tokens_) {
    if (!token.normalized) {
      raw_.add(token.content, id);
      continue;
    }
    const std::string pattern =
        normalizer == nullptr ? token.content : normalizer->apply(token.content);
    if (!pattern.empty()) {
      normalized_.add(pattern, id);
    }
  }
}

std::optional<std::int32_t> AddedTokens::id_of(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::int32_t AddedTokens::id_limit() const {
  std::int32_t limit = 0;
  for (const auto& [id, token] : tokens_) {
    limit = std::max(limit, id + 1);
  }
  return limit;
}

std::vector<Span> AddedTokens::split(const Matcher& matcher, std::string_view text) const {
  std::vector<Span> spans;
  std::size_t done = 0;
  for (std::size_t at = 0; !matcher.empty() && at < text.size();) {
    std::int32_t id = -1;
    const std::size_t length = matcher.longest(text, at, &id);
    if (length == 0) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + length;
    at = end;
    const AddedToken& token = *find(id);
    if (token.single_word && touches_word(text, begin, end)) {
      continue;
    }
    if (token.left_strip) {
      begin = std::max(white_space_begin(text.substr(0, begin), begin), done);
    }
    if (token.right_strip) {
      end = white_space_end(text, end);
    }
    if (done < begin) {
      spans.push_back({done, begin, std::nullopt});
    }
    spans.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) {
    spans.push_back({done, text.size(), std::nullopt});
  }
  return spans;
}

}  // namespace difflet::text
