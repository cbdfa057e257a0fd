// The encoders behind image.h. Each takes a checked picture and checked text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/io/image.h"

namespace difflet::io {

using ImageText = std::map<std::string, std::string>;
using Encoded = std::vector<std::uint8_t>;

// Every key is a chunk of its own.
Encoded encode_png(const Image& image, const ImageText& text);
// `lines` is one text block, empty for none.
Encoded encode_jpeg(const Image& image, const std::string& lines);
Encoded encode_webp(const Image& image, const std::string& lines);

// A TIFF block whose EXIF UserComment is `text`, for the EXIF chunk of WebP and, after "Exif\0\0", the
// APP1 marker of JPEG. Throws InvalidArgument when `text` is not UTF-8.
std::vector<std::uint8_t> exif_user_comment(std::string_view text);

// Throws InvalidArgument naming `what` unless `text` is UTF-8 without NUL.
std::u16string utf8_to_utf16(std::string_view text, std::string_view what);

}  // namespace difflet::io
