// 8-bit RGB pictures as PNG, JPEG or WebP (by the file's extension) with text embedded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::io {

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

enum class ImageFormat { Png, Jpeg, Webp };

// Throws InvalidArgument naming the known extensions.
ImageFormat image_format(const std::filesystem::path& path);

// Throws InvalidArgument for a picture that the format cannot hold.
void check_image_size(ImageFormat format, std::int64_t width, std::int64_t height);

// `text` (UTF-8) is embedded. PNG: an iTXt chunk for each key, and one named `parameters`, where other
// programs look, with all as "key: value" lines unless that key is given. JPEG and WebP: those lines
// as EXIF UserComment; in a JPEG, text beyond 64 KiB becomes comment markers. JPEG has quality 95
// without chroma subsampling, PNG and WebP are lossless. Throws InvalidArgument for a picture that
// the format cannot hold, text that is not UTF-8, or a key that is not 1 to 79 printable ASCII
// characters; writing is atomic and throws as write_file_atomic does.
void write_image(const std::filesystem::path& path, const Image& image,
                 const std::map<std::string, std::string>& text);
std::vector<std::uint8_t> encode_image(const Image& image, ImageFormat format,
                                       const std::map<std::string, std::string>& text);
// Decode any PNG to 8-bit RGB (alpha is dropped), and the embedded text when `text` is not null. Throws
// DataLoss; `origin` names the bytes in errors.
Image decode_png(std::span<const std::uint8_t> bytes, std::string_view origin,
                 std::map<std::string, std::string>* text = nullptr);
Image read_png(const std::filesystem::path& path,
               std::map<std::string, std::string>* text = nullptr);

}  // namespace difflet::io
