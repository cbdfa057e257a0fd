// 8-bit RGB pictures as PNG, JPEG or WebP (by the file's extension) with text embedded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace difflet::io {

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

enum class ImageFormat { Png, Jpeg, Webp };

// Throws InvalidArgument naming the known extensions.
ImageFormat image_format(const std::filesystem::path& path);

// `text` is embedded: PNG iTXt chunks, JPEG and WebP as one EXIF/XMP or comment block of "key: value"
// lines (UTF-8). Atomic write; throws Unavailable or ResourceExhausted.
void write_image(const std::filesystem::path& path, const Image& image,
                 const std::map<std::string, std::string>& text);
std::vector<std::uint8_t> encode_image(const Image& image, ImageFormat format,
                                       const std::map<std::string, std::string>& text);
// For tests and tools: decodes PNG, and the embedded text when `text` is not null.
Image read_png(const std::filesystem::path& path, std::map<std::string, std::string>* text = nullptr);

}  // namespace difflet::io
