// Hostile spiece.model: refused, or pieces and a character map that takes a text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/text/charsmap.h"
#include "difflet/text/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    const auto model = difflet::text::read_sentencepiece(
        {reinterpret_cast<const char*>(data), size}, "spiece.model");
    if (!model.charsmap.empty()) {
      difflet::text::Charsmap(model.charsmap, "spiece.model").apply("e\u0301 \uff21\u3000x");
    }
  });
}
