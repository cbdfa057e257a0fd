// What stands beside the model in a tokenizer folder: tokenizer_config.json and the older files
// special_tokens_map.json and added_tokens.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/text/added_tokens.h"
#include "difflet/text/pipeline.h"

namespace difflet::text {

// Named tokens of a class that no file mentions, by the name without "_token": {"eos", "</s>"}.
using TokenNames = std::map<std::string, std::string, std::less<>>;

class FolderConfig {
 public:
  // `tokenizer_json` may be null; it must outlive the object.
  FolderConfig(const std::filesystem::path& folder, const Json& tokenizer_json);

  // tokenizer_class, empty when absent.
  std::string class_name() const;
  // Text of the token with this name ("eos"), or the given default.
  std::string token(std::string_view name, std::string_view absent) const;
  std::int64_t max_length() const;  // 0 when absent or unlimited
  std::int64_t count(std::string_view name, std::int64_t absent) const;
  // Padding side and length; Unsupported for truncation on the left.
  Limits limits() const;
  // The added tokens that transformers 5 gives a class which builds its own stages, in its order:
  // added_tokens_decoder of the configuration, or when it has none added_tokens.json and the tokens
  // of tokenizer.json; then named tokens, then extra ones (`extras` when no file has any).
  std::vector<AddedToken> added_tokens(const TokenNames& defaults,
                                       const std::vector<AddedToken>& extras) const;

 private:
  const Json& find(std::string_view key) const;
  std::vector<AddedToken> listed_tokens() const;
  std::vector<AddedToken> extra_tokens(const std::vector<AddedToken>& defaults) const;
  AddedToken read_token(const Json& json) const;

  std::filesystem::path folder_;
  std::string origin_;       // path of tokenizer_config.json
  Json config_;              // empty object when there is no file
  Json special_tokens_map_;  // likewise; not consulted beside an added_tokens_decoder
  const Json& tokenizer_json_;
};

}  // namespace difflet::text
