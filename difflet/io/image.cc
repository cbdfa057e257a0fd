#include "difflet/io/image.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

struct FormatRow {
  ImageFormat format;
  std::string_view name;
  std::int64_t max_extent;  // what the format's fields (JPEG: libjpeg) can hold
};

constexpr std::array<FormatRow, 3> kFormats = {{
    {ImageFormat::Png, "PNG", 1'000'000},
    {ImageFormat::Jpeg, "JPEG", 65'500},
    {ImageFormat::Webp, "WebP", 16'383},
}};

struct Extension {
  std::string_view name;
  ImageFormat format;
};

constexpr std::array<Extension, 4> kExtensions = {{
    {".png", ImageFormat::Png},
    {".jpg", ImageFormat::Jpeg},
    {".jpeg", ImageFormat::Jpeg},
    {".webp", ImageFormat::Webp},
}};

constexpr const char* kCombinedKey = "parameters";
constexpr std::size_t kMaxKey = 79;  // PNG specification, 11.3.3.1

void check_image(const Image& image, ImageFormat format) {
  check_image_size(format, image.width, image.height);
  const auto bytes = static_cast<std::size_t>(image.width * image.height * 3);
  check(image.rgb.size() == bytes, ErrorCode::InvalidArgument,
        "{} bytes for a picture of {}x{} pixels, which takes {}", image.rgb.size(), image.width,
        image.height, bytes);
}

void check_text(const ImageText& text) {
  for (const auto& [key, value] : text) {
    const bool printable = std::ranges::all_of(key, [](char c) { return c >= ' ' && c <= '~'; });
    check(printable && !key.empty() && key.size() <= kMaxKey && key.front() != ' ' &&
              key.back() != ' ' && key.find("  ") == std::string::npos,
          ErrorCode::InvalidArgument, "'{}' cannot be the key of embedded text", key);
    utf8_to_utf16(value, fmt::format("the embedded text '{}'", key));
  }
}

std::string join_lines(const ImageText& text) {
  std::string lines;
  for (const auto& [key, value] : text) {
    lines += fmt::format("{}{}: {}", lines.empty() ? "" : "\n", key, value);
  }
  return lines;
}

}  // namespace

ImageFormat image_format(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto* const found = std::ranges::find(kExtensions, extension, &Extension::name);
  check(found != kExtensions.end(), ErrorCode::InvalidArgument,
        "'{}': the extension of a picture is .png, .jpg, .jpeg or .webp", path.string());
  return found->format;
}

void check_image_size(ImageFormat format, std::int64_t width, std::int64_t height) {
  const FormatRow& row = kFormats[static_cast<std::size_t>(format)];
  check(width > 0 && height > 0, ErrorCode::InvalidArgument,
        "a picture of {}x{} pixels cannot be written", width, height);
  check(width <= row.max_extent && height <= row.max_extent, ErrorCode::InvalidArgument,
        "{} holds at most {} pixels a side, not {}x{}", row.name, row.max_extent, width, height);
}

std::vector<std::uint8_t> encode_image(const Image& image, ImageFormat format,
                                       const std::map<std::string, std::string>& text) {
  check_image(image, format);
  check_text(text);
  switch (format) {
    case ImageFormat::Png: {
      ImageText chunks = text;
      if (!text.empty()) {
        chunks.emplace(kCombinedKey, join_lines(text));
      }
      return encode_png(image, chunks);
    }
    case ImageFormat::Jpeg:
      return encode_jpeg(image, join_lines(text));
    case ImageFormat::Webp:
      return encode_webp(image, join_lines(text));
  }
  fail(ErrorCode::Internal, "unknown image format {}", static_cast<int>(format));
}

void write_image(const std::filesystem::path& path, const Image& image,
                 const std::map<std::string, std::string>& text) {
  const std::vector<std::uint8_t> bytes = encode_image(image, image_format(path), text);
  write_file_atomic(path, std::as_bytes(std::span(bytes)));
}

Image read_png(const std::filesystem::path& path, std::map<std::string, std::string>* text) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  return decode_png({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                    path.string(), text);
}

}  // namespace difflet::io
