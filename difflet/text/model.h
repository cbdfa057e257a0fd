// Fourth stage of a tokenizer: a piece to ids.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "difflet/text/tokenizer.h"

namespace difflet::text {

// Lets a map of strings be asked with a string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};

using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

class Model {
 public:
  virtual ~Model() = default;
  // `piece` is not empty.
  virtual void tokenize(std::string_view piece, Ids* out) const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  // Nothing for an id that is not in use.
  virtual std::optional<std::string_view> token_of(std::int32_t id) const = 0;
  virtual std::int32_t token_count() const = 0;  // added tokens take ids from here on
  virtual std::int32_t id_limit() const = 0;     // largest id + 1
};

// The token of byte b in models with byte fallback: <0x0A>.
std::string byte_token(unsigned char b);

}  // namespace difflet::text
