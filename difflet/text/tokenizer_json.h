// Reading tokenizer.json, the file of the tokenizers library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/text/added_tokens.h"
#include "difflet/text/bpe.h"
#include "difflet/text/pipeline.h"
#include "difflet/text/unigram.h"

namespace difflet::text {

// In all of these `origin` names the file in errors. A kind that is not known here throws
// Unsupported with the kind; a member that is missing or has the wrong type throws DataLoss.

// The whole file, as the tokenizers library runs it; the truncation and padding in it are ignored.
Stages read_tokenizer_json(const Json& file, std::string_view origin);

NormalizerPtr read_normalizer(const Json& json, std::string_view origin);       // null for null
PreTokenizerPtr read_pre_tokenizer(const Json& json, std::string_view origin);  // null for null
Decoder read_decoder(const Json& json, std::string_view origin);
SpecialTokens read_post_processor(const Json& json, std::string_view origin);

Vocabulary read_bpe_vocabulary(const Json& vocab, std::string_view origin);
Merges read_bpe_merges(const Json& merges, std::string_view origin);
std::vector<ScoredToken> read_unigram_vocabulary(const Json& vocab, std::string_view origin);
AddedToken read_added_token(const Json& json, std::string_view origin);

// Member access with errors that name the file; `name` must be there.
const Json& member(const Json& object, std::string_view name, std::string_view origin);
// Null when absent.
const Json& optional_member(const Json& object, std::string_view name, std::string_view origin);
std::string string_member(const Json& object, std::string_view name, std::string_view origin);
// Absent and null take the default.
bool flag_member(const Json& object, std::string_view name, bool absent, std::string_view origin);
std::string text_member(const Json& object, std::string_view name, std::string_view absent,
                        std::string_view origin);
std::int32_t to_id(const Json& json, std::string_view origin);

}  // namespace difflet::text
