// libjpeg reports errors through a callback that must not return: longjmp, so the function with
// setjmp holds only trivial objects and references.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it first
#include <cstdlib>

// clang-format off: jerror.h needs jpeglib.h
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "difflet/base/error.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

constexpr int kQuality = 95;
constexpr std::size_t kMaxMarker = 65'533;  // bytes after a marker's 16-bit length
constexpr int kApp1 = JPEG_APP0 + 1;

struct ErrorManager {
  jpeg_error_mgr base = {};  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump = {};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool out_of_memory = false;
};

struct Encoder {
  jpeg_compress_struct info = {};
  ErrorManager errors;
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  const Image& image;
  std::span<const std::uint8_t> exif;
  std::string_view comment;

  explicit Encoder(const Image& i) : image(i) { info.err = jpeg_std_error(&errors.base); }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(out);  // jpeg_mem_dest allocates with malloc
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, errors->message.data());
  errors->out_of_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(errors->jump, 1);
}

void on_message(j_common_ptr) {}

void write_markers(Encoder& e) {
  if (!e.exif.empty()) {
    jpeg_write_marker(&e.info, kApp1, e.exif.data(), static_cast<unsigned>(e.exif.size()));
  }
  for (std::size_t at = 0; at < e.comment.size(); at += kMaxMarker) {
    const std::string_view part = e.comment.substr(at, kMaxMarker);
    jpeg_write_marker(&e.info, JPEG_COM, reinterpret_cast<const JOCTET*>(part.data()),
                      static_cast<unsigned>(part.size()));
  }
}

bool encode(Encoder& e) {
  e.errors.base.error_exit = on_error;
  e.errors.base.output_message = on_message;
  if (setjmp(e.errors.jump) != 0) {
    return false;
  }
  jpeg_create_compress(&e.info);
  jpeg_mem_dest(&e.info, &e.out, &e.size);
  e.info.image_width = static_cast<JDIMENSION>(e.image.width);
  e.info.image_height = static_cast<JDIMENSION>(e.image.height);
  e.info.input_components = 3;
  e.info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&e.info);
  jpeg_set_quality(&e.info, kQuality, TRUE);
  e.info.comp_info[0].h_samp_factor = 1;  // 4:4:4
  e.info.comp_info[0].v_samp_factor = 1;
  e.info.optimize_coding = TRUE;
  jpeg_start_compress(&e.info, TRUE);
  write_markers(e);
  const auto stride = static_cast<std::size_t>(e.image.width) * 3;
  while (e.info.next_scanline < e.info.image_height) {
    auto* row = const_cast<JSAMPROW>(e.image.rgb.data() + e.info.next_scanline * stride);
    jpeg_write_scanlines(&e.info, &row, 1);
  }
  jpeg_finish_compress(&e.info);
  return true;
}

}  // namespace

Encoded encode_jpeg(const Image& image, const std::string& lines) {
  std::vector<std::uint8_t> exif;
  if (!lines.empty()) {
    constexpr std::array<std::uint8_t, 6> kSignature = {'E', 'x', 'i', 'f', 0, 0};
    exif = exif_user_comment(lines);
    exif.insert(exif.begin(), kSignature.begin(), kSignature.end());
  }
  Encoder encoder(image);
  if (exif.size() <= kMaxMarker) {
    encoder.exif = exif;
  } else {
    encoder.comment = lines;
  }
  if (!encode(encoder)) {
    fail(encoder.errors.out_of_memory ? ErrorCode::ResourceExhausted : ErrorCode::Internal,
         "cannot encode JPEG: {}", encoder.errors.message.data());
  }
  return {encoder.out, encoder.out + encoder.size};
}

}  // namespace difflet::io
