#include <array>
#include <cstring>

#include "difflet/base/error.h"
#include "difflet/io/codecs.h"

namespace difflet::io {
namespace {

struct Sequence {
  std::size_t length;
  char32_t lead_bits;
  char32_t lowest;  // smaller code points are overlong in this length
};

// By the first byte; length 0 for a byte that starts nothing.
Sequence sequence_of(std::uint8_t lead) {
  if (lead < 0x80U) {
    return {1, lead, 1};
  }
  if (lead >= 0xc2U && lead < 0xe0U) {
    return {2, lead & 0x1fU, 0x80};
  }
  if (lead >= 0xe0U && lead < 0xf0U) {
    return {3, lead & 0x0fU, 0x800};
  }
  if (lead >= 0xf0U && lead < 0xf5U) {
    return {4, lead & 0x07U, 0x10000};
  }
  return {0, 0, 0};
}

void put(std::vector<std::uint8_t>& out, std::uint32_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) {
    out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
}

}  // namespace

std::u16string utf8_to_utf16(std::string_view text, std::string_view what) {
  std::u16string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Sequence s = sequence_of(static_cast<std::uint8_t>(text[i]));
    bool ok = s.length > 0 && i + s.length <= text.size();
    char32_t c = s.lead_bits;
    for (std::size_t k = 1; ok && k < s.length; ++k) {
      const auto b = static_cast<std::uint8_t>(text[i + k]);
      ok = (b & 0xc0U) == 0x80U;
      c = (c << 6U) | (b & 0x3fU);
    }
    ok = ok && c >= s.lowest && c <= 0x10ffffU && (c < 0xd800U || c > 0xdfffU);
    check(ok, ErrorCode::InvalidArgument, "{} is not UTF-8 text (byte {})", what, i);
    if (c >= 0x10000U) {
      out.push_back(static_cast<char16_t>(0xd800U + ((c - 0x10000U) >> 10U)));
      out.push_back(static_cast<char16_t>(0xdc00U + ((c - 0x10000U) & 0x3ffU)));
    } else {
      out.push_back(static_cast<char16_t>(c));
    }
    i += s.length;
  }
  return out;
}

// Exif 2.32: a big-endian TIFF with IFD0 {ExifIFD pointer} and the Exif IFD {UserComment}, whose text
// follows the character code "UNICODE\0" as UTF-16 in the byte order of the file.
std::vector<std::uint8_t> exif_user_comment(std::string_view text) {
  constexpr std::uint32_t kIfd0 = 8;
  constexpr std::uint32_t kIfdBytes = 2 + 12 + 4;  // count, one entry, no next
  constexpr std::uint32_t kExifIfd = kIfd0 + kIfdBytes;
  constexpr std::uint32_t kComment = kExifIfd + kIfdBytes;
  constexpr std::uint32_t kTagExifIfd = 0x8769, kTagUserComment = 0x9286;
  constexpr std::uint32_t kTypeLong = 4, kTypeUndefined = 7;
  constexpr std::array<char, 8> kUnicode = {'U', 'N', 'I', 'C', 'O', 'D', 'E', '\0'};

  const std::u16string utf16 = utf8_to_utf16(text, "the text to embed");
  std::vector<std::uint8_t> out = {'M', 'M', 0, 42};
  put(out, kIfd0, 4);
  const auto put_ifd = [&out](std::uint32_t tag, std::uint32_t type, std::size_t count,
                              std::uint32_t value) {
    put(out, 1, 2);
    put(out, tag, 2);
    put(out, type, 2);
    put(out, static_cast<std::uint32_t>(count), 4);
    put(out, value, 4);
    put(out, 0, 4);
  };
  put_ifd(kTagExifIfd, kTypeLong, 1, kExifIfd);
  put_ifd(kTagUserComment, kTypeUndefined, kUnicode.size() + 2 * utf16.size(), kComment);
  out.insert(out.end(), kUnicode.begin(), kUnicode.end());
  for (const char16_t c : utf16) {
    put(out, c, 2);
  }
  return out;
}

}  // namespace difflet::io
