#include "difflet/text/pre_tokenizer.h"

#include <array>

#include "difflet/text/unicode.h"

namespace difflet::text {
namespace {

void append_piece(Pieces* out, const Piece& from, std::size_t begin, std::size_t end) {
  if (begin < end) {
    out->push_back({from.text.substr(begin, end - begin), from.at_start && begin == 0});
  }
}

std::string with_prefix(std::string_view prefix, std::string_view text) {
  std::string out(prefix);
  out += text;
  return out;
}

bool is_printable_latin1(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteTable {
  std::array<char32_t, 256> character{};
  std::array<int, 512> byte{};  // -1 for none

  ByteTable() {
    byte.fill(-1);
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      character[b] = is_printable_latin1(b) ? b : next++;
      byte[character[b]] = static_cast<int>(b);
    }
  }
};

const ByteTable& byte_table() {
  static const ByteTable table;
  return table;
}

}  // namespace

std::string bytes_to_characters(std::string_view bytes) {
  const ByteTable& table = byte_table();
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    append_utf8(&out, table.character[static_cast<unsigned char>(c)]);
  }
  return out;
}

void append_characters_as_bytes(std::string_view text, std::string* bytes) {
  const ByteTable& table = byte_table();
  const std::size_t before = bytes->size();
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (c >= table.byte.size() || table.byte[c] < 0) {
      bytes->resize(before);
      *bytes += text;
      return;
    }
    *bytes += static_cast<char>(table.byte[c]);
  }
}

Pieces SplitPreTokenizer::split(const Pieces& pieces) const {
  Pieces out;
  for (const Piece& piece : pieces) {
    std::size_t done = 0;
    for (const Match& match : find_all(pattern_, piece.text)) {
      if (keep_ != Keep::Matches) {
        append_piece(&out, piece, done, match.begin);
      }
      if (keep_ != Keep::Rest) {
        append_piece(&out, piece, match.begin, match.end);
      }
      done = match.end;
    }
    if (keep_ != Keep::Matches) {
      append_piece(&out, piece, done, piece.text.size());
    }
  }
  return out;
}

Pieces ByteLevelPreTokenizer::split(const Pieces& pieces) const {
  Pieces spaced = pieces;
  for (Piece& piece : spaced) {
    if (options_.add_prefix_space && !piece.text.empty() && piece.text.front() != ' ') {
      piece.text = with_prefix(" ", piece.text);
    }
  }
  if (options_.use_regex) {
    spaced = SplitPreTokenizer(match_gpt2, SplitPreTokenizer::Keep::Both).split(spaced);
  }
  for (Piece& piece : spaced) {
    piece.text = bytes_to_characters(piece.text);
  }
  return spaced;
}

Pieces WhitespaceSplitPreTokenizer::split(const Pieces& pieces) const {
  const auto white = [](std::string_view text, std::size_t at) {
    std::size_t next = at;
    return is_white_space(next_code_point(text, &next)) ? next : at;
  };
  return SplitPreTokenizer(white, SplitPreTokenizer::Keep::Rest).split(pieces);
}

Pieces MetaspacePreTokenizer::split(const Pieces& pieces) const {
  Pieces out;
  for (const Piece& piece : pieces) {
    Piece marked;
    marked.at_start = piece.at_start;
    for (const char c : piece.text) {
      if (c == ' ') {
        marked.text += options_.mark;
      } else {
        marked.text += c;
      }
    }
    const bool wanted = options_.prepend == Prepend::Always ||
                        (options_.prepend == Prepend::First && piece.at_start);
    if (wanted && !marked.text.empty() && !marked.text.starts_with(options_.mark)) {
      marked.text = with_prefix(options_.mark, marked.text);
    }
    std::size_t begin = 0;
    while (options_.split && begin < marked.text.size()) {
      const std::size_t end =
          std::min(marked.text.find(options_.mark, begin + 1), marked.text.size());
      append_piece(&out, marked, begin, end);
      begin = end;
    }
    append_piece(&out, marked, begin, marked.text.size());
  }
  return out;
}

Pieces PreTokenizerSequence::split(const Pieces& pieces) const {
  Pieces out = pieces;
  for (const PreTokenizerPtr& part : parts_) {
    out = part->split(out);
  }
  return out;
}

}  // namespace difflet::text
