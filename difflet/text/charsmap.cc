#include "difflet/text/charsmap.h"

#include <algorithm>
#include <cstddef>

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

constexpr std::size_t kMaxWholeCluster = 5;   // bytes
constexpr std::size_t kMaxReplacement = 255;  // bytes; the longest of nmt_nfkc has 33

std::uint32_t read_u32(std::string_view data, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = (value << 8U) | static_cast<unsigned char>(data[at + i]);
  }
  return value;
}

// Fields of a darts-clone unit.
bool has_leaf(std::uint32_t unit) { return ((unit >> 8U) & 1U) != 0; }
std::uint32_t leaf_value(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10U) << ((unit & 0x200U) >> 6U); }

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') {
    return c - 'A';
  }
  if (c >= 'a' && c <= 'z') {
    return c - 'a' + 26;
  }
  if (c >= '0' && c <= '9') {
    return c - '0' + 52;
  }
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

Charsmap::Charsmap(std::string_view data, std::string origin) : origin_(std::move(origin)) {
  constexpr std::size_t kHeader = 4;
  check(data.size() >= kHeader, ErrorCode::DataLoss, "{}: precompiled charsmap is truncated",
        origin_);
  const std::uint32_t bytes = read_u32(data, 0);
  check(bytes >= 4 && bytes % 4 == 0 && bytes <= data.size() - kHeader, ErrorCode::DataLoss,
        "{}: precompiled charsmap of {} bytes says that its trie has {}", origin_, data.size(),
        bytes);
  trie_.reserve(bytes / 4);
  for (std::size_t at = kHeader; at < kHeader + bytes; at += 4) {
    trie_.push_back(read_u32(data, at));
  }
  replacements_ = data.substr(kHeader + bytes);
  check(find_invalid_utf8(replacements_) == std::string_view::npos, ErrorCode::DataLoss,
        "{}: precompiled charsmap has replacements that are not UTF-8", origin_);
}

std::uint32_t Charsmap::unit(std::uint32_t at) const {
  check(at < trie_.size(), ErrorCode::DataLoss, "{}: precompiled charsmap points outside its trie",
        origin_);
  return trie_[at];
}

std::string_view Charsmap::replacement(std::uint32_t at) const {
  const bool inside =
      at < replacements_.size() && (static_cast<unsigned char>(replacements_[at]) & 0xC0U) != 0x80U;
  check(inside, ErrorCode::DataLoss, "{}: precompiled charsmap points outside its replacements",
        origin_);
  const std::string_view rest = std::string_view(replacements_).substr(at);
  const std::size_t length = std::min(rest.find('\0'), rest.size());
  check(length <= kMaxReplacement, ErrorCode::DataLoss,
        "{}: precompiled charsmap has a replacement of {} bytes", origin_, length);
  return rest.substr(0, length);
}

std::optional<std::string_view> Charsmap::shortest_prefix(std::string_view key) const {
  std::uint32_t node = offset(unit(0));
  for (const char c : key) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) {
      return std::nullopt;
    }
    node ^= byte;
    const std::uint32_t here = unit(node);
    if (label(here) != byte) {
      return std::nullopt;
    }
    node ^= offset(here);
    if (has_leaf(here)) {
      return replacement(leaf_value(unit(node)));
    }
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kMaxWholeCluster) {
      if (const auto whole = shortest_prefix(cluster)) {
        out += *whole;
        continue;
      }
    }
    for (std::size_t at = 0; at < cluster.size();) {
      const std::size_t start = at;
      next_code_point(cluster, &at);
      const std::string_view part = cluster.substr(start, at - start);
      out += shortest_prefix(part).value_or(part);
    }
  }
  return out;
}

std::string decode_base64(std::string_view text, std::string_view origin) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  unsigned count = 0;  // of bits held
  std::size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') {
    --digits;
  }
  check(text.size() % 4 == 0, ErrorCode::DataLoss, "{}: base64 of {} characters", origin,
        text.size());
  for (const char c : text.substr(0, digits)) {
    const int value = base64_value(c);
    check(value >= 0, ErrorCode::DataLoss, "{}: base64 with a character outside its alphabet",
          origin);
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> count) & 0xFFU);
    }
  }
  return out;
}

}  // namespace difflet::text
