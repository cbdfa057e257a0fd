// Names of repositories: "org/name", and "org/name@revision" where a command takes a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace difflet::io::hub {

struct RepoId {
  std::string text;  // "org/name", or "name" for the hub's oldest repositories

  // Throws InvalidArgument, saying what an id looks like.
  static RepoId parse(std::string_view text);
  std::string folder_name() const;  // "models--org--name"
};

// Throws InvalidArgument for text that cannot name a branch, tag or commit.
void check_revision(std::string_view revision);
// A whole commit hash: 40 lower-case hex digits.
bool is_commit(std::string_view revision) noexcept;

struct ModelName {
  RepoId id;
  std::string revision;  // "main" unless given
};
// "org/name" or "org/name@revision"; nothing for text that is neither.
std::optional<ModelName> parse_model_name(std::string_view text);

}  // namespace difflet::io::hub
