#include "difflet/base/units.h"

#include <array>

#include <fmt/format.h>

namespace difflet {

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
