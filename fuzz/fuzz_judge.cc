// The text of a judge's sheet of thumbnails.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/pipelines/judge.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using difflet::fuzz::law;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return difflet::fuzz::refuse_or_accept([&] {
    difflet::io::Image sheet{.width = 4, .height = 4, .rgb = {}};
    sheet.rgb.resize(48);
    const auto judge = difflet::pipelines::Judge::parse(sheet, text, "fuzz");
    law(!judge.questions().empty(), "a judge asks");
    (void)judge.name(judge.questions().front().picture);
    (void)judge.name(judge.nearest(sheet));
  });
}
