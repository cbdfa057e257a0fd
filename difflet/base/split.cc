#include "difflet/base/split.h"

#include <algorithm>

namespace difflet {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace difflet
