// Small tokenizers that stand in for those of FLUX.1: every text has ids, all below the vocabularies of
// the encoders.
#pragma once

#include <cstdint>

#include "difflet/base/json.h"

namespace difflet::bench {

inline constexpr std::int64_t kClipVocabulary = 49408, kClipBos = 49406, kClipEos = 49407;
inline constexpr std::int64_t kT5Vocabulary = 32128;

// tokenizer.json and tokenizer_config.json. CLIP: BPE without merges, a token for each byte, and one for
// each that ends a word. T5: Unigram over the printable ASCII characters, others are unknown.
Json clip_tokenizer();
Json clip_tokenizer_config();
Json t5_tokenizer();
Json t5_tokenizer_config();

}  // namespace difflet::bench
