#include <memory>

#include <webp/encode.h>
#include <webp/mux.h>

#include "difflet/base/error.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

struct MuxDelete {
  void operator()(WebPMux* mux) const { WebPMuxDelete(mux); }
};

// Throws unless the mux call succeeded.
void check_mux(WebPMuxError status) {
  check(status != WEBP_MUX_MEMORY_ERROR, ErrorCode::ResourceExhausted, "out of memory for WebP");
  check(status == WEBP_MUX_OK, ErrorCode::Internal, "cannot assemble WebP: error {}",
        static_cast<int>(status));
}

Encoded with_exif(const Encoded& picture, const std::string& lines) {
  const std::unique_ptr<WebPMux, MuxDelete> mux(WebPMuxNew());
  check(mux != nullptr, ErrorCode::ResourceExhausted, "out of memory for WebP");
  const std::vector<std::uint8_t> exif = exif_user_comment(lines);
  const WebPData picture_data = {picture.data(), picture.size()};
  const WebPData exif_data = {exif.data(), exif.size()};
  check_mux(WebPMuxSetImage(mux.get(), &picture_data, 0));
  check_mux(WebPMuxSetChunk(mux.get(), "EXIF", &exif_data, 0));
  WebPData out = {nullptr, 0};
  check_mux(WebPMuxAssemble(mux.get(), &out));
  const std::unique_ptr<const std::uint8_t, void (*)(const std::uint8_t*)> owner(
      out.bytes, [](const std::uint8_t* p) { WebPFree(const_cast<std::uint8_t*>(p)); });
  return {out.bytes, out.bytes + out.size};
}

}  // namespace

Encoded encode_webp(const Image& image, const std::string& lines) {
  std::uint8_t* data = nullptr;
  const int stride = static_cast<int>(image.width) * 3;
  const std::size_t size = WebPEncodeLosslessRGB(image.rgb.data(), static_cast<int>(image.width),
                                                 static_cast<int>(image.height), stride, &data);
  const std::unique_ptr<std::uint8_t, decltype(&WebPFree)> owner(data, WebPFree);
  // The arguments are checked, so memory is what is left to fail.
  check(size > 0, ErrorCode::ResourceExhausted, "cannot encode WebP of {}x{} pixels", image.width,
        image.height);
  Encoded picture(data, data + size);
  return lines.empty() ? picture : with_exif(picture, lines);
}

}  // namespace difflet::io
