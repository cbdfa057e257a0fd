// Offsets of buffers in one arena from the steps at which each is alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace difflet::cpu {

struct Lifetime {
  std::size_t bytes = 0;
  std::int64_t first = 0, last = 0;  // steps, both included
};

struct MemoryPlan {
  std::vector<std::size_t> offset;  // [buffer], 64-byte aligned
  std::size_t bytes = 0;            // of the arena
};

// Largest first, each at the lowest offset that no buffer alive at the same time covers.
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace difflet::cpu
