// What a hub's answers say: headers and JSON, all of it from outside and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace difflet::io::hub {

// Headers of one answer; names without regard to case.
class Headers {
 public:
  // "Name: value\r\n"; a line without a name is left out. A status line begins anew.
  void add_line(std::string_view line);
  // The last value of that name; empty when there is none.
  std::string_view get(std::string_view name) const noexcept;
  bool has(std::string_view name) const noexcept;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// W/"x" and "x" as x.
std::string plain_etag(std::string_view etag);
// Whether a file can be checked against it: a git blob's SHA-1 or a file's SHA-256 in hex.
bool is_digest(std::string_view etag) noexcept;

// The target of rel="next" in a Link header.
std::optional<std::string> next_link(std::string_view link);

// "bytes 10-99/100"; nothing for anything else.
struct ContentRange {
  std::uint64_t first = 0, last = 0;
  std::optional<std::uint64_t> total;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

std::optional<std::uint64_t> parse_size(std::string_view digits);

// Seconds that an answer asks to wait: Retry-After as seconds or a date (`now` in seconds since 1970),
// else the t= of a RateLimit header.
std::optional<double> retry_after(const Headers& headers, std::int64_t now);

// Whether `path` names a file below a folder: no "..", no empty part, not absolute, no control
// characters.
bool is_plain_path(std::string_view path) noexcept;
// Bytes outside of letters, digits and "-._~" (and '/' in Slashes::Kept) as %XX.
enum class Slashes : std::uint8_t { Kept, Escaped };
std::string percent_encode(std::string_view text, Slashes slashes);

struct RemoteFile {
  std::string path;
  std::string etag;        // SHA-256 of a large file, else the git blob's SHA-1
  std::uint64_t size = 0;  // bytes
};
// One page of the tree API. Throws DataLoss, naming `origin`; folders and what has an unusable path
// are left out.
std::vector<RemoteFile> parse_tree(std::string_view json, std::string_view origin);
// "sha" of a model's information. Throws DataLoss.
std::string parse_commit(std::string_view json, std::string_view origin);

}  // namespace difflet::io::hub
