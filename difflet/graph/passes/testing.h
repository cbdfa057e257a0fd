// Graphs in text form, for the tests of passes.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace difflet::graph::passes {

inline std::string wrap(std::string_view body, int tp = 1, std::string_view name = "t") {
  return fmt::format("graph \"{}\" mesh(dp=1, cfg=1, cp=1, tp={}) {{\n{}}}\n", name, tp, body);
}

// Leading blanks of a raw string's lines become the two of the printed form.
inline std::string indent(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string_view::npos) {
      out += fmt::format("  {}\n", line.substr(first));
    }
  }
  return out;
}

}  // namespace difflet::graph::passes
