#include "difflet/io/image.h"

#include <jpeglib.h>

#include <cstdio>
#include <cstring>

#include <webp/decode.h>
#include <webp/mux.h>

#include "difflet/base/file.h"
#include "difflet/base/testing.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

using testing::TemporaryFolder;

Image gradient(std::int64_t width, std::int64_t height) {
  Image image;
  image.width = width;
  image.height = height;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      image.rgb.push_back(static_cast<std::uint8_t>(x * 5));
      image.rgb.push_back(static_cast<std::uint8_t>(y * 7));
      image.rgb.push_back(static_cast<std::uint8_t>((x + y) * 3));
    }
  }
  return image;
}

const ImageText kText = {{"prompt", "a \"cat\", zażółć 猫 🐈\nsecond line"}, {"seed", "42"}};
const std::string kLines = "prompt: a \"cat\", zażółć 猫 🐈\nsecond line\nseed: 42";

std::string as_string(const Encoded& bytes) { return {bytes.begin(), bytes.end()}; }

std::string as_string(const std::vector<std::uint8_t>& bytes, std::size_t start) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(start), bytes.end()};
}

TEST(ImageFormats, AreChosenByExtension) {
  EXPECT_EQ(image_format("a/b.png"), ImageFormat::Png);
  EXPECT_EQ(image_format("b.x.JPG"), ImageFormat::Jpeg);
  EXPECT_EQ(image_format("b.jpeg"), ImageFormat::Jpeg);
  EXPECT_EQ(image_format("b.WebP"), ImageFormat::Webp);
  for (const char* name : {"b", "b.gif", "png", ".png", "b.png/", "b."}) {
    EXPECT_ERROR(image_format(name), ErrorCode::InvalidArgument, ".png, .jpg, .jpeg or .webp");
  }
}

TEST(Png, KeepsEveryPixelAndTheText) {
  const TemporaryFolder folder;
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {1, 50}, {67, 31}}) {
    const Image image = gradient(width, height);
    write_image(folder / "p.png", image, kText);
    ImageText text;
    const Image back = read_png(folder / "p.png", &text);
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.rgb, image.rgb);
    EXPECT_EQ(text.at("prompt"), kText.at("prompt"));
    EXPECT_EQ(text.at("seed"), "42");
    EXPECT_EQ(text.at("parameters"), kLines);
    EXPECT_EQ(text.size(), 3U);
  }
}

TEST(Png, AGivenParametersTextIsKept) {
  const Encoded png =
      encode_image(gradient(2, 2), ImageFormat::Png, {{"parameters", "mine"}, {"seed", "1"}});
  ImageText text;
  decode_png(png, "p", &text);
  EXPECT_EQ(text.at("parameters"), "mine");
}

TEST(Png, WithoutTextHasNone) {
  ImageText text;
  decode_png(encode_image(gradient(2, 2), ImageFormat::Png, {}), "p", &text);
  EXPECT_TRUE(text.empty());
}

TEST(Png, DamageIsDataLoss) {
  const Encoded good = encode_image(gradient(20, 20), ImageFormat::Png, kText);
  EXPECT_ERROR(decode_png({}, "p.png"), ErrorCode::DataLoss, "p.png: damaged PNG: truncated");
  for (std::size_t length = 1; length < good.size(); ++length) {
    EXPECT_ERROR(decode_png(std::span(good).first(length), "p.png"), ErrorCode::DataLoss, "p.png");
  }
  for (std::size_t at = 0; at < good.size(); at += 3) {
    Encoded bad = good;
    bad[at] = static_cast<std::uint8_t>(bad[at] ^ 0x10U);
    try {  // damage to text or a checksum that does not count may pass
      decode_png(bad, "p.png");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::DataLoss) << e.message();
    }
  }
  EXPECT_ERROR(decode_png(std::span(good).subspan(1), "p.png"), ErrorCode::DataLoss, "p.png");
}

// A header of 60000x60000 pixels with no data to speak of must not take 10 GB.
TEST(Png, RefusesSizesThatTheDataCannotHold) {
  Encoded bad = encode_image(gradient(2, 2), ImageFormat::Png, {});
  constexpr std::size_t kWidthAt = 16, kCrcAt = 29;
  bad[kWidthAt + 2] = bad[kWidthAt + 6] = 0xea;
  std::uint32_t crc = ~0U;
  for (std::size_t i = 12; i < kCrcAt; ++i) {
    crc ^= bad[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0U ? 0xedb88320U : 0U);
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    bad[kCrcAt + i] = static_cast<std::uint8_t>(~crc >> (24 - 8 * i));
  }
  EXPECT_ERROR(decode_png(bad, "p.png"), ErrorCode::DataLoss, "cannot hold 59906x59906 pixels");
}

struct DecodedJpeg {
  Image image;
  std::vector<std::uint8_t> exif;
  std::string comment;
  int sampling = 0;
};

DecodedJpeg decode_jpeg(const Encoded& bytes) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
  jpeg_save_markers(&info, JPEG_COM, 0xffff);
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  DecodedJpeg out;
  out.image.width = info.output_width;
  out.image.height = info.output_height;
  out.image.rgb.resize(std::size_t{info.output_width} * info.output_height * 3);
  out.sampling = info.comp_info[0].h_samp_factor * info.comp_info[0].v_samp_factor;
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = out.image.rgb.data() + std::size_t{info.output_scanline} * info.output_width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  for (const auto* m = info.marker_list; m != nullptr; m = m->next) {
    if (m->marker == JPEG_COM) {
      out.comment.append(reinterpret_cast<const char*>(m->data), m->data_length);
    } else {
      out.exif.assign(m->data, m->data + m->data_length);
    }
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return out;
}

int largest_difference(const Image& a, const Image& b) {
  int worst = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) {
    worst = std::max(worst, std::abs(int{a.rgb[i]} - int{b.rgb[i]}));
  }
  return worst;
}

TEST(Jpeg, IsCloseAndNotSubsampled) {
  const Image image = gradient(40, 24);
  const DecodedJpeg back = decode_jpeg(encode_image(image, ImageFormat::Jpeg, {}));
  ASSERT_EQ(back.image.rgb.size(), image.rgb.size());
  EXPECT_LE(largest_difference(back.image, image), 16);
  EXPECT_EQ(back.sampling, 1);
  EXPECT_TRUE(back.exif.empty());
  EXPECT_TRUE(back.comment.empty());
}

TEST(Jpeg, HoldsTheTextAsExif) {
  const DecodedJpeg back = decode_jpeg(encode_image(gradient(8, 8), ImageFormat::Jpeg, kText));
  EXPECT_EQ(as_string(back.exif),
            std::string("Exif\0\0", 6) + as_string(exif_user_comment(kLines)));
}

TEST(Jpeg, LongTextBecomesComments) {
  const std::string prompt(150'000, 'p');
  const DecodedJpeg back =
      decode_jpeg(encode_image(gradient(8, 8), ImageFormat::Jpeg, {{"prompt", prompt}}));
  EXPECT_TRUE(back.exif.empty());
  EXPECT_EQ(back.comment, "prompt: " + prompt);
}

TEST(Exif, IsABigEndianTiffWithUtf16) {
  const std::vector<std::uint8_t> exif = exif_user_comment("aé🐈");
  EXPECT_EQ(as_string(exif).substr(0, 8), std::string("MM\0\x2a\0\0\0\x08", 8));
  EXPECT_EQ(as_string(exif, 44), std::string("UNICODE\0\0a\0\xe9\xd8\x3d\xdc\x08", 16));
  EXPECT_EQ(exif[35], 16);  // bytes of the comment, low byte of the count
  EXPECT_EQ(exif[39], 44);  // its place
}

TEST(Webp, KeepsEveryPixelAndTheText) {
  const Image image = gradient(33, 17);
  for (const ImageText& text : {ImageText{}, kText}) {
    const Encoded bytes = encode_image(image, ImageFormat::Webp, text);
    int width = 0;
    int height = 0;
    std::uint8_t* rgb = WebPDecodeRGB(bytes.data(), bytes.size(), &width, &height);
    ASSERT_NE(rgb, nullptr);
    ASSERT_EQ(width, 33);
    ASSERT_EQ(height, 17);
    EXPECT_EQ(std::memcmp(rgb, image.rgb.data(), image.rgb.size()), 0);
    WebPFree(rgb);
    const WebPData data = {bytes.data(), bytes.size()};
    WebPMux* mux = WebPMuxCreate(&data, 0);
    WebPData exif = {nullptr, 0};
    const WebPMuxError found = WebPMuxGetChunk(mux, "EXIF", &exif);
    EXPECT_EQ(found, text.empty() ? WEBP_MUX_NOT_FOUND : WEBP_MUX_OK);
    if (found == WEBP_MUX_OK) {
      EXPECT_EQ(as_string({exif.bytes, exif.bytes + exif.size}),
                as_string(exif_user_comment(kLines)));
    }
    WebPMuxDelete(mux);
  }
}

TEST(WriteImage, RefusesWhatAFormatCannotHold) {
  const TemporaryFolder folder;
  Image image = gradient(2, 2);
  image.height = 0;
  EXPECT_ERROR(write_image(folder / "p.png", image, {}), ErrorCode::InvalidArgument, "2x0");
  image.height = -1;
  EXPECT_ERROR(write_image(folder / "p.png", image, {}), ErrorCode::InvalidArgument, "2x-1");
  image.height = 3;
  EXPECT_ERROR(write_image(folder / "p.png", image, {}), ErrorCode::InvalidArgument,
               "12 bytes for a picture of 2x3");
  EXPECT_ERROR(write_image(folder / "p.webp", gradient(16'384, 1), {}), ErrorCode::InvalidArgument,
               "WebP holds at most 16383");
  EXPECT_ERROR(write_image(folder / "p.jpg", gradient(1, 65'501), {}), ErrorCode::InvalidArgument,
               "JPEG holds at most 65500");
  EXPECT_ERROR(write_image(folder / "p.gif", gradient(1, 1), {}), ErrorCode::InvalidArgument,
               "extension");
  EXPECT_ERROR(write_image(folder / "absent/p.png", gradient(1, 1), {}), ErrorCode::NotFound,
               "no folder");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WriteImage, RefusesBadText) {
  for (const ImageFormat format : {ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Webp}) {
    const auto encode = [&](const std::string& key, const std::string& value) {
      encode_image(gradient(2, 2), format, {{key, value}});
    };
    for (const std::string& key :
         {std::string(), std::string(80, 'k'), std::string(" k"), std::string("k "),
          std::string("a  b"), std::string("é"), std::string("a\nb")}) {
      EXPECT_ERROR(encode(key, "v"), ErrorCode::InvalidArgument, "cannot be the key");
    }
    EXPECT_NO_THROW(encode(std::string(79, 'k'), ""));
    for (const char* value : {"\xff", "a\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80",
                              "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xf8\x88\x80\x80\x80"}) {
      EXPECT_ERROR(encode("k", value), ErrorCode::InvalidArgument, "'k' is not UTF-8");
    }
    EXPECT_ERROR(encode("k", std::string("a\0b", 3)), ErrorCode::InvalidArgument, "byte 1");
  }
}

}  // namespace
}  // namespace difflet::io
