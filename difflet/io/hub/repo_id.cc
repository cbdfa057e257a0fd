#include "difflet/io/hub/repo_id.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/base/sha256.h"

namespace difflet::io::hub {
namespace {

constexpr std::size_t kMaxPart = 96;
constexpr std::size_t kMaxRevision = 255;
constexpr std::size_t kCommitDigits = 40;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters, digits, '-', '_', '.'; "--" separates the parts of a folder's name and ".." climbs.
bool is_part(std::string_view text) {
  const auto allowed = [](char c) {
    return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
  };
  const auto edge = [](char c) { return is_alphanumeric(c) || c == '_'; };
  return !text.empty() && text.size() <= kMaxPart && std::ranges::all_of(text, allowed) &&
         edge(text.front()) && edge(text.back()) && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos && !text.ends_with(".git");
}

bool is_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash == std::string_view::npos
             ? is_part(text)
             : is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

// As git takes a name of a branch or tag, and as a path below refs/.
bool is_revision(std::string_view text) {
  const auto allowed = [](char c) {
    return c > ' ' && c < '\x7f' && std::string_view("~^:?*[\\").find(c) == std::string_view::npos;
  };
  return !text.empty() && text.size() <= kMaxRevision && std::ranges::all_of(text, allowed) &&
         text.front() != '/' && text.back() != '/' && text.front() != '-' &&
         text.find("..") == std::string_view::npos && text.find("//") == std::string_view::npos &&
         text != "." && !text.starts_with("./") && text.find("/./") == std::string_view::npos &&
         !text.ends_with("/.");
}

}  // namespace

RepoId RepoId::parse(std::string_view text) {
  check(is_id(text), ErrorCode::InvalidArgument,
        "'{}' is not the id of a model: expected org/name, letters, digits, '-', '_' and '.'",
        text);
  return {std::string(text)};
}

std::string RepoId::folder_name() const {
  const std::size_t slash = text.find('/');
  return slash == std::string::npos
             ? fmt::format("models--{}", text)
             : fmt::format("models--{}--{}", text.substr(0, slash), text.substr(slash + 1));
}

void check_revision(std::string_view revision) {
  check(is_revision(revision), ErrorCode::InvalidArgument,
        "'{}' is not the name of a branch, tag or commit", revision);
}

bool is_commit(std::string_view revision) noexcept { return is_hex(revision, kCommitDigits); }

std::optional<ModelName> parse_model_name(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view id = text.substr(0, at);
  const std::string_view revision = at == std::string_view::npos ? "main" : text.substr(at + 1);
  if (id.find('/') == std::string_view::npos || !is_id(id) || !is_revision(revision)) {
    return std::nullopt;
  }
  return ModelName{.id = {std::string(id)}, .revision = std::string(revision)};
}

}  // namespace difflet::io::hub
