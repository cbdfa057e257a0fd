// Reading spiece.model with the sentencepiece library.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/text/added_tokens.h"
#include "difflet/text/unigram.h"

namespace difflet::text {

struct SentencePieceModel {
  std::vector<ScoredToken> pieces;
  std::vector<AddedToken> added;  // control and user-defined pieces
  std::string charsmap;           // precompiled; empty when the model has none
};

// `file` names the bytes in errors. DataLoss when the library refuses them, Unsupported for a model
// that is not unigram.
SentencePieceModel read_sentencepiece(std::string_view bytes, std::string_view file);

}  // namespace difflet::text
