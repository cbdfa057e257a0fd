// libpng reports errors through longjmp. So each function here that calls setjmp holds only trivial
// objects and references: everything with a destructor lives in its caller.
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "difflet/base/error.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

constexpr png_uint_32 kMaxExtent = 1U << 16U;
constexpr png_alloc_size_t kMaxChunk = 64U << 20U;
// No deflate stream grows more than 1032-fold (zlib's technical notes); interlacing and row filters
// do not change that.
constexpr std::uint64_t kMaxExpansion = 1032;

struct Message {
  std::array<char, 200> text{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp what) {
  auto* message = static_cast<Message*>(png_get_error_ptr(png));
  std::strncpy(message->text.data(), what, message->text.size() - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct Encoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Encoded out;
  bool out_of_memory = false;
  Message message;
  const Image& image;
  std::vector<png_text>& texts;

  Encoder(const Image& i, std::vector<png_text>& t) : image(i), texts(t) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
  }
  ~Encoder() { png_destroy_write_struct(&png, &info); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

void append(png_structp png, png_bytep data, png_size_t size) {
  auto* encoder = static_cast<Encoder*>(png_get_io_ptr(png));
  try {
    encoder->out.insert(encoder->out.end(), data, data + size);
  } catch (const std::exception&) {
    encoder->out_of_memory = true;
  }
  if (encoder->out_of_memory) {  // outside the handler: longjmp must not leave one
    png_error(png, "out of memory");
  }
}

void flush(png_structp) {}

bool encode(Encoder& e) {
  if (setjmp(png_jmpbuf(e.png)) != 0) {
    return false;
  }
  png_set_write_fn(e.png, &e, append, flush);
  png_set_IHDR(e.png, e.info, static_cast<png_uint_32>(e.image.width),
               static_cast<png_uint_32>(e.image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_sRGB(e.png, e.info, PNG_sRGB_INTENT_PERCEPTUAL);
  png_set_text(e.png, e.info, e.texts.data(), static_cast<int>(e.texts.size()));
  png_write_info(e.png, e.info);
  const auto stride = static_cast<std::size_t>(e.image.width) * 3;
  for (std::size_t y = 0; y < static_cast<std::size_t>(e.image.height); ++y) {
    png_write_row(e.png, e.image.rgb.data() + y * stride);
  }
  png_write_end(e.png, e.info);
  return true;
}

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;
  Message message;
  png_uint_32 width = 0, height = 0;
  std::uint64_t stored_bytes = 0;  // of the decompressed rows
  std::vector<png_bytep> rows;

  explicit Decoder(std::span<const std::uint8_t> bytes) : rest(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
  }
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

void read_bytes(png_structp png, png_bytep data, png_size_t size) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (size > decoder->rest.size()) {
    png_error(png, "truncated");
  }
  std::memcpy(data, decoder->rest.data(), size);
  decoder->rest = decoder->rest.subspan(size);
}

// Whether every chunk up to IEND lies inside the bytes. libpng would allocate and clear what a length
// says, up to 2 GiB, before it finds the data missing.
bool chunks_fit(std::span<const std::uint8_t> rest) {
  constexpr std::size_t kSignature = 8, kLength = 4, kName = 4, kCrc = 4;
  rest = rest.subspan(std::min(rest.size(), kSignature));
  while (rest.size() >= kLength + kName + kCrc) {
    const std::size_t length = png_get_uint_32(rest.data());
    if (length > rest.size() - kLength - kName - kCrc) {
      return false;
    }
    if (std::memcmp(rest.data() + kLength, "IEND", kName) == 0) {
      return true;
    }
    rest = rest.subspan(kLength + kName + length + kCrc);
  }
  return false;
}

// Up to the first row; asks libpng to turn whatever follows into 8-bit RGB.
bool decode_header(Decoder& d) {
  if (setjmp(png_jmpbuf(d.png)) != 0) {
    return false;
  }
  png_set_read_fn(d.png, &d, read_bytes);
  png_set_user_limits(d.png, kMaxExtent, kMaxExtent);
  png_set_chunk_malloc_max(d.png, kMaxChunk);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  png_set_crc_action(d.png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#endif
  png_read_info(d.png, d.info);
  d.width = png_get_image_width(d.png, d.info);
  d.height = png_get_image_height(d.png, d.info);
  d.stored_bytes = png_get_rowbytes(d.png, d.info) * std::uint64_t{d.height};
  png_set_expand(d.png);
  png_set_strip_16(d.png);
  png_set_strip_alpha(d.png);
  png_set_gray_to_rgb(d.png);
  png_set_interlace_handling(d.png);
  png_read_update_info(d.png, d.info);
  if (png_get_rowbytes(d.png, d.info) != std::size_t{d.width} * 3) {
    png_error(d.png, "unexpected pixel layout");
  }
  return true;
}

bool decode_pixels(Decoder& d) {
  if (setjmp(png_jmpbuf(d.png)) != 0) {
    return false;
  }
  png_read_image(d.png, d.rows.data());
  png_read_end(d.png, d.info);
  return true;
}

void collect_text(const Decoder& d, ImageText& text) {
  png_textp items = nullptr;
  const int count = png_get_text(d.png, d.info, &items, nullptr);
  for (int i = 0; i < count; ++i) {
    const png_text& item = items[i];
    text[item.key] = item.text == nullptr ? "" : item.text;
  }
}

}  // namespace

Encoded encode_png(const Image& image, const ImageText& text) {
  std::vector<png_text> texts;
  for (const auto& [key, value] : text) {
    png_text item = {};
    item.compression = PNG_ITXT_COMPRESSION_NONE;
    item.key = const_cast<char*>(key.c_str());  // libpng only reads them
    item.text = const_cast<char*>(value.c_str());
    item.itxt_length = value.size();
    texts.push_back(item);
  }
  Encoder encoder(image, texts);
  check(encoder.info != nullptr, ErrorCode::ResourceExhausted, "cannot start libpng");
  if (!encode(encoder)) {
    fail(encoder.out_of_memory ? ErrorCode::ResourceExhausted : ErrorCode::Internal,
         "cannot encode PNG: {}", encoder.message.text.data());
  }
  return std::move(encoder.out);
}

Image decode_png(std::span<const std::uint8_t> bytes, std::string_view origin, ImageText* text) {
  Decoder decoder(bytes);
  check(decoder.info != nullptr, ErrorCode::ResourceExhausted, "cannot start libpng");
  check(chunks_fit(bytes), ErrorCode::DataLoss, "{}: damaged PNG: truncated", origin);
  check(decode_header(decoder), ErrorCode::DataLoss, "{}: damaged PNG: {}", origin,
        decoder.message.text.data());
  check(decoder.stored_bytes / kMaxExpansion <= bytes.size(), ErrorCode::DataLoss,
        "{}: damaged PNG: {} bytes cannot hold {}x{} pixels", origin, bytes.size(), decoder.width,
        decoder.height);
  Image image;
  image.width = decoder.width;
  image.height = decoder.height;
  const std::size_t stride = std::size_t{decoder.width} * 3;
  image.rgb.resize(stride * decoder.height);
  for (std::size_t y = 0; y < decoder.height; ++y) {
    decoder.rows.push_back(image.rgb.data() + y * stride);
  }
  check(decode_pixels(decoder), ErrorCode::DataLoss, "{}: damaged PNG: {}", origin,
        decoder.message.text.data());
  if (text != nullptr) {
    collect_text(decoder, *text);
  }
  return image;
}

}  // namespace difflet::io
