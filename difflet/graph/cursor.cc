#include "difflet/graph/cursor.h"

#include <algorithm>

namespace difflet::graph {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

}  // namespace

std::size_t Cursor::line() const {
  return 1 + static_cast<std::size_t>(std::ranges::count(text_.substr(0, at_), '\n'));
}

void Cursor::refuse(std::string_view what) const { fail(ErrorCode::InvalidArgument, "{}", what); }

void Cursor::skip_blanks() {
  while (at_ < text_.size() && is_blank(text_[at_])) {
    ++at_;
  }
}

bool Cursor::done() {
  skip_blanks();
  return at_ == text_.size();
}

bool Cursor::accept(std::string_view token) {
  const std::size_t start = at_;
  skip_blanks();
  const std::size_t end = at_ + token.size();
  const bool found = text_.substr(at_).starts_with(token);
  if (!found || (is_word(token.back()) && end < text_.size() && is_word(text_[end]))) {
    at_ = start;
    return false;
  }
  at_ = end;
  return true;
}

void Cursor::expect(std::string_view token) {
  if (!accept(token)) {
    refuse(fmt::format("expected '{}'", token));
  }
}

std::string_view Cursor::word() {
  skip_blanks();
  std::size_t end = at_;
  while (end < text_.size() && is_word(text_[end])) {
    ++end;
  }
  if (end == at_ || is_digit(text_[at_])) {
    refuse("expected a word");
  }
  const std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return found;
}

std::string Cursor::string() {
  expect("\"");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] != '\\') {
      out += text_[at_++];
      continue;
    }
    const std::string_view rest = text_.substr(at_ + 1);
    unsigned char byte = 0;
    if (rest.starts_with('"') || rest.starts_with('\\')) {
      out += rest[0];
      at_ += 2;
    } else if (rest.size() >= 3 && rest[0] == 'x' &&
               std::from_chars(rest.data() + 1, rest.data() + 3, byte, 16).ptr == rest.data() + 3) {
      out += static_cast<char>(byte);
      at_ += 4;
    } else {
      refuse("unknown escape in a string");
    }
  }
  if (at_ == text_.size()) {
    refuse("a string does not end");
  }
  ++at_;
  return out;
}

std::string_view Cursor::until(char end) {
  const std::size_t found = text_.find(end, at_);
  if (found == std::string_view::npos) {
    refuse(fmt::format("expected '{}'", end));
  }
  const std::string_view run = text_.substr(at_, found - at_);
  at_ = found + 1;
  return run;
}

}  // namespace difflet::graph
