#pragma once

#include <cstddef>
#include <string>

namespace difflet {

// "512 B", "1.5 GB": powers of 1000.
std::string readable_bytes(std::size_t bytes);
// "2.50 s", "45 s", "3 min 05 s", "1 h 02 min".
std::string readable_seconds(double seconds);

}  // namespace difflet
