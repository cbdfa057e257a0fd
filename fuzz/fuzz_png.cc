// A hostile PNG: refused, or a whole picture whose text is text.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "fuzz/fuzz.h"

#include "difflet/io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    std::map<std::string, std::string> text;
    const difflet::io::Image image = difflet::io::decode_png(std::span(data, size), "input", &text);
    difflet::fuzz::law(image.width > 0 && image.height > 0, "a size");
    difflet::fuzz::law(image.rgb.size() == static_cast<std::size_t>(image.width * image.height * 3),
                       "every pixel");
  });
}
