// The precompiled character map of sentencepiece, as the tokenizers library applies it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::text {

class Charsmap {
 public:
  // `data`: u32 size of the trie in bytes, the trie (u32 units of a darts-clone double array, all
  // little endian), and the replacements, each ended by a zero byte. `origin` names the file in
  // errors (DataLoss). A replacement of more than 255 bytes counts as damage.
  Charsmap(std::string_view data, std::string origin);

  // A cluster of at most 5 bytes is replaced by the entry of its shortest prefix in the map, the rest
  // of the cluster being dropped; failing that, and in longer clusters, each code point goes by
  // itself (tokenizers, normalizers/precompiled.rs).
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> shortest_prefix(std::string_view key) const;
  std::uint32_t unit(std::uint32_t at) const;
  std::string_view replacement(std::uint32_t at) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
  std::string origin_;
};

// Standard alphabet with padding; throws DataLoss.
std::string decode_base64(std::string_view text, std::string_view origin);

}  // namespace difflet::text
