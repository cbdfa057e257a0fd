// UTF-8 and the Unicode properties that tokenizers ask about (ICU).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::text {

// Offset of the first byte that is not part of well-formed UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);
// Well-formed UTF-8, each maximal broken part replaced by U+FFFD (as Rust's from_utf8_lossy).
std::string repair_utf8(std::string_view bytes);

// The functions below take well-formed UTF-8.

// Code point at *at, which moves behind it.
char32_t next_code_point(std::string_view text, std::size_t* at);
// Offset of the code point that ends at `end` (> 0).
std::size_t previous_offset(std::string_view text, std::size_t end);
void append_utf8(std::string* out, char32_t c);

bool is_letter(char32_t c);  // \p{L}
bool is_number(char32_t c);  // \p{N}
bool is_white_space(
    char32_t c);           // property White_Space: Rust's is_whitespace, \s of both regex engines
bool is_word(char32_t c);  // \w of Rust's regex

std::string to_nfc(std::string_view text);
// Each code point by itself, so no final sigma; U+0130 becomes two.
std::string to_lower(std::string_view text);
// Offsets behind each extended grapheme cluster.
std::vector<std::size_t> grapheme_ends(std::string_view text);

}  // namespace difflet::text
