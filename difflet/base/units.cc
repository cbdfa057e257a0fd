#include "difflet/base/units.h"

#include <array>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "difflet/base/error.h"

namespace difflet {

std::size_t parse_bytes(std::string_view text, std::string_view what) {
  constexpr unsigned kMost = 50;  // bits
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (unit == "K" || unit == "k") {
    shift = 10;
  } else if (unit.empty() || unit == "M" || unit == "m") {
    shift = 20;
  } else if (unit == "G" || unit == "g") {
    shift = 30;
  }
  const bool fits = value > 0 && value <= std::uint64_t{1} << (kMost - shift);
  check(error == std::errc{} && shift > 0 && fits, ErrorCode::InvalidArgument,
        "{}: '{}' is not a size such as 512M or 2G (K, M or G; a number alone is in M)", what,
        text);
  return static_cast<std::size_t>(value << shift);
}

std::string size_text(std::size_t bytes) {
  constexpr std::size_t kKibi = 1024;
  const std::size_t kibi = (bytes + kKibi - 1) / kKibi;
  return kibi > 0 && kibi % kKibi == 0 ? fmt::format("{}M", kibi / kKibi)
                                       : fmt::format("{}K", kibi);
}

std::string readable_bytes(std::size_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : 1, kUnits[unit]);
}

std::string readable_seconds(double seconds) {
  if (seconds < 60) {
    return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 0);
  }
  const auto whole = static_cast<long long>(seconds);
  return whole < 3600 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                      : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace difflet
