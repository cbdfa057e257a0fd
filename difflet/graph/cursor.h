// A position in the text form of a graph.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "difflet/base/error.h"

namespace difflet::graph {

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  // Throws InvalidArgument; the parser adds the line.
  [[noreturn]] void refuse(std::string_view what) const;
  bool done();
  // Consumes `token` when it comes next (after blanks).
  bool accept(std::string_view token);
  void expect(std::string_view token);
  // [A-Za-z_][A-Za-z0-9_]*, not empty.
  std::string_view word();
  std::string string();  // quoted
  // The run of characters up to `end`, which is consumed.
  std::string_view until(char end);
  template <typename T>
  T number();
  std::size_t line() const;

 private:
  void skip_blanks();

  std::string_view text_;
  std::size_t at_ = 0;
};

template <typename T>
T Cursor::number() {
  skip_blanks();
  T value{};
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc{}) {
    refuse("expected a number");
  }
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

}  // namespace difflet::graph
