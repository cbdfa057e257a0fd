#include "difflet/text/unicode.h"

#include <cstdint>
#include <memory>

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include "difflet/base/error.h"

namespace difflet::text {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

UChar32 to_icu(char32_t c) { return static_cast<UChar32>(c); }

bool in_categories(char32_t c, std::uint32_t mask) {
  return (U_MASK(u_charType(to_icu(c))) & mask) != 0;
}

void check_icu(UErrorCode status, const char* what) {
  if (U_FAILURE(status) != 0) {
    fail(ErrorCode::Internal, "ICU: {}: {}", what, u_errorName(status));
  }
}

// Length of the well-formed sequence at `at`, or 0; *valid_part is the length of the longest prefix
// of a well-formed sequence there (at least 1).
std::size_t sequence_length(std::string_view text, std::size_t at, std::size_t* valid_part) {
  const unsigned lead = byte_at(text, at);
  *valid_part = 1;
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) {
    return 0;
  }
  // Bounds of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0U : lead == 0xF0 ? 0x90U : 0x80U;
  unsigned high = lead == 0xED ? 0x9FU : lead == 0xF4 ? 0x8FU : 0xBFU;
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte_at(text, at + i) < low || byte_at(text, at + i) > high) {
      return 0;
    }
    *valid_part = i + 1;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t valid_part = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at, &valid_part);
    if (length == 0) {
      return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  std::size_t valid_part = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = sequence_length(bytes, at, &valid_part);
    if (length == 0) {
      out += "\uFFFD";
    } else {
      out += bytes.substr(at, length);
    }
    at += valid_part;
  }
  return out;
}

char32_t next_code_point(std::string_view text, std::size_t* at) {
  const unsigned lead = byte_at(text, (*at)++);
  if (lead < 0x80) {
    return lead;
  }
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t c = lead & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more; ++i) {
    c = (c << 6U) | (byte_at(text, (*at)++) & 0x3FU);
  }
  return c;
}

std::size_t previous_offset(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (byte_at(text, end) & 0xC0U) == 0x80U);
  return end;
}

void append_utf8(std::string* out, char32_t c) {
  const auto put = [out](char32_t byte) { *out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0U | (c >> 6U));
    put(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0U | (c >> 12U));
    put(0x80U | ((c >> 6U) & 0x3FU));
    put(0x80U | (c & 0x3FU));
  } else {
    put(0xF0U | (c >> 18U));
    put(0x80U | ((c >> 12U) & 0x3FU));
    put(0x80U | ((c >> 6U) & 0x3FU));
    put(0x80U | (c & 0x3FU));
  }
}

bool is_letter(char32_t c) { return in_categories(c, U_GC_L_MASK); }

bool is_number(char32_t c) { return in_categories(c, U_GC_N_MASK); }

bool is_white_space(char32_t c) { return u_isUWhiteSpace(to_icu(c)) != 0; }

bool is_word(char32_t c) {
  return u_isUAlphabetic(to_icu(c)) != 0 ||
         in_categories(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(to_icu(c), UCHAR_JOIN_CONTROL) != 0;
}

std::string to_nfc(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  check_icu(status, "NFC");
  std::string out;
  out.reserve(text.size());
  icu::StringByteSink<std::string> sink(&out);
  nfc->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink,
                     nullptr, status);
  check_icu(status, "NFC");
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (c == 0x130) {  // the one code point whose lower case is two (SpecialCasing.txt)
      out += "i\u0307";
    } else {
      append_utf8(&out, static_cast<char32_t>(u_tolower(to_icu(c))));
    }
  }
  return out;
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check_icu(status, "grapheme breaks");
  UText view = UTEXT_INITIALIZER;
  utext_openUTF8(&view, text.data(), static_cast<std::int64_t>(text.size()), &status);
  breaks->setText(&view, status);
  check_icu(status, "grapheme breaks");
  std::vector<std::size_t> ends;
  breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) {
    ends.push_back(static_cast<std::size_t>(end));
  }
  utext_close(&view);
  return ends;
}

}  // namespace difflet::text
