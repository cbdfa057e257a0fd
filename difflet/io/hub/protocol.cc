#include "difflet/io/hub/protocol.h"

#include <algorithm>
#include <charconv>

#include <curl/curl.h>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/base/sha256.h"
#include "difflet/io/hub/repo_id.h"

namespace difflet::io::hub {
namespace {

constexpr std::size_t kMaxHeaders = 256;
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxPathPart = 255;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_names(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The parameters behind <target>, up to the comma that ends this link.
bool is_next(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string_view one = trimmed(parameters.substr(0, end));
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && equal_names(trimmed(one.substr(0, equals)), "rel")) {
      std::string_view value = trimmed(one.substr(equals + 1));
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        value = value.substr(1, value.size() - 2);
      }
      return equal_names(value, "next");
    }
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return false;
}

// The value of t in "\"api\";r=0;t=55".
std::optional<double> rate_limit_reset(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view one = trimmed(text.substr(0, end));
    if (one.starts_with("t=")) {
      const auto seconds = parse_size(one.substr(2));
      return seconds ? std::optional(static_cast<double>(*seconds)) : std::nullopt;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::uint64_t> count_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned()
             ? std::optional(found->get<std::uint64_t>())
             : std::nullopt;
}

}  // namespace

void Headers::add_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    lines_.clear();
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos || lines_.size() >= kMaxHeaders) {
    return;
  }
  lines_.emplace_back(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
}

std::string_view Headers::get(std::string_view name) const noexcept {
  const auto line = std::find_if(lines_.rbegin(), lines_.rend(),
                                 [&](const auto& l) { return equal_names(l.first, name); });
  return line == lines_.rend() ? std::string_view() : std::string_view(line->second);
}

bool Headers::has(std::string_view name) const noexcept {
  return std::ranges::any_of(lines_, [&](const auto& l) { return equal_names(l.first, name); });
}

std::string plain_etag(std::string_view etag) {
  etag = trimmed(etag);
  if (etag.starts_with("W/")) {
    etag.remove_prefix(2);
  }
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

bool is_digest(std::string_view etag) noexcept { return is_hex(etag, 40) || is_hex(etag, 64); }

std::optional<std::string> next_link(std::string_view link) {
  while (true) {
    const std::size_t open = link.find('<');
    const std::size_t close = open == std::string_view::npos ? open : link.find('>', open);
    if (close == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view target = link.substr(open + 1, close - open - 1);
    link.remove_prefix(close + 1);
    const std::size_t end = std::min(link.find(','), link.size());
    if (is_next(link.substr(0, end))) {
      return std::string(target);
    }
    link.remove_prefix(end);
  }
}

std::optional<std::uint64_t> parse_size(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && !digits.empty() ? std::optional(value) : std::nullopt;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("bytes ")) {
    return std::nullopt;
  }
  text = trimmed(text.substr(6));
  const std::size_t dash = text.find('-');
  const std::size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = parse_size(text.substr(0, dash));
  const auto last = parse_size(text.substr(dash + 1, slash - dash - 1));
  const std::string_view total = text.substr(slash + 1);
  if (!first || !last || *first > *last || (total != "*" && !parse_size(total))) {
    return std::nullopt;
  }
  return ContentRange{.first = *first, .last = *last, .total = parse_size(total)};
}

std::optional<double> retry_after(const Headers& headers, std::int64_t now) {
  const std::string_view text = headers.get("retry-after");
  if (const auto seconds = parse_size(text)) {
    return static_cast<double>(*seconds);
  }
  if (!text.empty()) {
    const auto date = static_cast<std::int64_t>(curl_getdate(std::string(text).c_str(), nullptr));
    if (date >= 0) {
      return static_cast<double>(std::max<std::int64_t>(date - now, 0));
    }
  }
  return rate_limit_reset(headers.get("ratelimit"));
}

bool is_plain_path(std::string_view path) noexcept {
  if (path.empty() || path.size() > kMaxPath) {
    return false;
  }
  const auto refused = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f' || c == '\\'; };
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxPathPart ||
        std::ranges::any_of(part, refused)) {
      return false;
    }
    if (end == path.size()) {
      return true;
    }
    path.remove_prefix(end + 1);
  }
}

std::string percent_encode(std::string_view text, Slashes slashes) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && slashes == Slashes::Kept)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::vector<RemoteFile> parse_tree(std::string_view json, std::string_view origin) {
  const Json page = parse_json(json, origin);
  check(page.is_array(), ErrorCode::DataLoss, "{}: expected a list of files", origin);
  std::vector<RemoteFile> files;
  for (const Json& entry : page) {
    check(entry.is_object(), ErrorCode::DataLoss, "{}: an entry is not an object", origin);
    RemoteFile file{.path = text_of(entry, "path"), .etag = text_of(entry, "oid")};
    if (text_of(entry, "type") != "file" || !is_plain_path(file.path)) {
      continue;
    }
    auto size = count_of(entry, "size");
    if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
      file.etag = text_of(*lfs, "oid");
      if (file.etag.starts_with("sha256:")) {
        file.etag.erase(0, 7);
      }
      size = count_of(*lfs, "size");
    }
    check(size.has_value(), ErrorCode::DataLoss, "{}: '{}' has no size", origin, file.path);
    file.size = *size;
    files.push_back(std::move(file));
  }
  return files;
}

std::string parse_commit(std::string_view json, std::string_view origin) {
  const Json info = parse_json(json, origin);
  const std::string commit = info.is_object() ? text_of(info, "sha") : "";
  check(is_commit(commit), ErrorCode::DataLoss, "{}: there is no commit hash 'sha'", origin);
  return commit;
}

}  // namespace difflet::io::hub
