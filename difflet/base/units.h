#pragma once

#include <cstddef>
#include <string>

namespace difflet {

// "512 B", "1.5 GB": powers of 1000.
std::string readable_bytes(std::size_t bytes);

}  // namespace difflet
