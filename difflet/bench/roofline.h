// How near each kind of step comes to what the machine can do: the roofline.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/bench/ceilings.h"
#include "difflet/bench/op_groups.h"
#include "difflet/runtime/executable.h"

namespace difflet::bench {

// What bounds a program: operations a second by arithmetic, and the bandwidth of the smallest memory
// that holds all it works on.
struct Bounds {
  const Ceilings* ceilings = nullptr;
  int threads = 1;
  std::string level;  // of the kernels, as --cpu-level spells it
  MemoryLevel memory = MemoryLevel::Memory;

  double operations(std::string_view kernel) const;
  double bandwidth() const;
};

// The arithmetic of a kernel, which its name tells ("linear.avx512bf16.bf16", "linear.avx512vnni.w8a8"),
// else that of f32 at `level`.
Arithmetic arithmetic_of_kernel(std::string_view kernel, std::string_view level);
// The smallest memory that holds `bytes` with the caches of `threads` cores.
MemoryLevel memory_that_holds(std::size_t bytes, const CacheSizes& caches, int threads);

// A group of steps and the least time that they could take: of each step the larger one of what its
// operations and its bytes take at the ceilings. A ceiling that was not measured bounds nothing.
struct RooflineRow {
  OpGroup work;
  double compute_s = 0;  // of the operations alone
  double bound_s = 0;
  bool memory_bound = false;  // bytes take most of bound_s

  double intensity() const { return work.bytes > 0 ? work.flops / work.bytes : 0; }
  double share() const { return work.seconds > 0 ? bound_s / work.seconds : 0; }
  double compute_share() const { return work.seconds > 0 ? compute_s / work.seconds : 0; }
};

struct Roofline {
  std::string program;  // "step"
  MemoryLevel memory = MemoryLevel::Memory;
  std::vector<RooflineRow> rows;  // a kernel each, longest first
  RooflineRow total;
};

Roofline roofline(std::string program, const std::vector<runtime::StepTime>& steps,
                  const Bounds& bounds);

// Every step with the median of its times and starts in `runs`, which are of one program.
std::vector<runtime::StepTime> median_steps(
    const std::vector<std::vector<runtime::StepTime>>& runs);

// A table of at most 100 columns.
std::string roofline_text(const Roofline& roofline);
Json roofline_json(const Roofline& roofline);

}  // namespace difflet::bench
