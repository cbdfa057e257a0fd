// The stages that transformers 5 gives its CLIPTokenizer and T5Tokenizer, whatever tokenizer.json says.
#pragma once

#include <string_view>

#include "difflet/text/config.h"
#include "difflet/text/sentencepiece.h"
#include "difflet/text/tokenizer_json.h"

namespace difflet::text {

// `origin` names the file of the vocabulary in errors.
Stages clip_stages(Vocabulary vocabulary, const Merges& merges, const FolderConfig& config,
                   std::string_view origin);
Stages t5_stages(const Json& tokenizer_json, const FolderConfig& config, std::string_view origin);
Stages t5_stages(SentencePieceModel model, const FolderConfig& config, std::string_view origin);

}  // namespace difflet::text
