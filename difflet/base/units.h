#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace difflet {

// "512M", "2G", "65536K" (powers of 1024), "300" (M): 1 K at least, 1024 T at most. Throws InvalidArgument,
// beginning with `what`.
std::size_t parse_bytes(std::string_view text, std::string_view what);
// What parse_bytes() reads as this many bytes, or less than a K more: "294M" when that is exact, "19969K".
std::string size_text(std::size_t bytes);
// "512 B", "1.5 GB": powers of 1000.
std::string readable_bytes(std::size_t bytes);
// "2.50 s", "45 s", "3 min 05 s", "1 h 02 min".
std::string readable_seconds(double seconds);

}  // namespace difflet
