// What the caches and the memory deliver.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "difflet/bench/windows.h"

namespace difflet::bench {

// Bytes read and written count as they stand; what a store would read first does not happen: stores
// of copy and triad go around the caches.
enum class Access {
  Read,
  Copy,   // a = b
  Triad,  // a = b + s c
};
inline constexpr std::array kAccesses{Access::Read, Access::Copy, Access::Triad};
std::string_view access_name(Access access) noexcept;  // "read"

// Pages that the memory is asked for; the kernel may refuse huge ones.
enum class PageSize { Small, Huge };

// Sizes in bytes as sysfs tells them, usual ones where it does not.
struct CacheSizes {
  std::size_t l1 = 0, l2 = 0;  // of a core
  std::size_t l3 = 0;          // of all
};
CacheSizes cache_sizes();

// Bytes a second and thread of reading `bytes` again and again, on every thread another piece of memory.
Measured measure_cache(std::size_t bytes, int threads, Resource resource);
// As above of memory that no cache holds; takes several times the size of the L3 cache.
Measured measure_memory(Access access, PageSize pages, int threads);

}  // namespace difflet::bench
