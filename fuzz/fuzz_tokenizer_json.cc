// Hostile tokenizer.json: refused, or a tokenizer that takes a text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/base/json.h"
#include "difflet/text/pipeline.h"
#include "difflet/text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    const difflet::Json json =
        difflet::parse_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    const difflet::text::Pipeline tokenizer(
        difflet::text::read_tokenizer_json(json, "tokenizer.json"));
    tokenizer.decode(
        tokenizer.encode("A caf\u00e9's  <|endoftext|> \u6f22\u5b57 e\u0301 12\n\U0001F600"));
  });
}
