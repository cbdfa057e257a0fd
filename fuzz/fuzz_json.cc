// Hostile JSON: refused with DataLoss, or a value that survives printing and parsing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    const difflet::Json value =
        difflet::parse_json({reinterpret_cast<const char*>(data), size}, "input.json");
    const std::string printed = value.dump();
    difflet::fuzz::law(difflet::parse_json(printed, "printed") == value, "parse(print(x)) == x");
  });
}
