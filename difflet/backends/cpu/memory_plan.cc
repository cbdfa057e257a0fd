#include "difflet/backends/cpu/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace difflet::cpu {
namespace {

constexpr std::size_t kAlign = 64;

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  MemoryPlan plan;
  plan.offset.assign(buffers.size(), 0);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  struct Placed {
    std::size_t begin, end;
    std::int64_t first, last;
  };
  std::vector<Placed> placed;  // sorted by begin
  for (const std::size_t i : order) {
    const Lifetime& b = buffers[i];
    const std::size_t bytes = (b.bytes + kAlign - 1) / kAlign * kAlign;
    std::size_t at = 0;
    for (const Placed& p : placed) {
      const bool together = p.first <= b.last && b.first <= p.last;
      if (together && p.begin < at + bytes && at < p.end) {
        at = p.end;
      }
    }
    plan.offset[i] = at;
    const Placed entry{at, at + bytes, b.first, b.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& x, const Placed& y) { return x.begin < y.begin; }),
        entry);
    plan.bytes = std::max(plan.bytes, at + bytes);
  }
  return plan;
}

}  // namespace difflet::cpu
