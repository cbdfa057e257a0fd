// The machine's own limits, measured in the same run as what is judged by them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/bench/arithmetic.h"
#include "difflet/bench/streams.h"
#include "difflet/tensor/dtype.h"

namespace difflet::bench {

// Multiply-adds on registers only, by `threads` threads at once, in GFLOP per second of CPU time
// and thread: the median of short windows in which no thread was descheduled, 0 when there was none.
// Throws Unsupported when the chip lacks the instructions.
double ceiling_gflops(Arithmetic arithmetic, int threads);

// What kernels of a level ("avx2", the spelling of --cpu-level) multiply values of a dtype with.
Arithmetic arithmetic_of_level(std::string_view level, DType dtype);

enum class MemoryLevel { L1, L2, L3, Memory };
std::string_view memory_level_name(MemoryLevel level) noexcept;  // "L2"

struct ArithmeticCeiling {
  Arithmetic arithmetic = Arithmetic::F32Xmm;
  int threads = 1;
  Measured rate;  // operations a second and thread
};

struct MemoryCeiling {
  MemoryLevel level = MemoryLevel::Memory;
  Access access = Access::Read;
  PageSize pages = PageSize::Huge;
  std::size_t bytes = 0;  // a thread; 0 for memory: larger than every cache
  int threads = 1;
  Measured rate;  // bytes a second and thread
};

struct Ceilings {
  CacheSizes caches;
  std::vector<ArithmeticCeiling> arithmetic;
  std::vector<MemoryCeiling> memory;

  // Of all threads together, in operations and in bytes a second; 0 when it was not measured. The
  // bandwidth is that of reading from 2 MB pages.
  double operations(Arithmetic arithmetic, int threads) const;
  double bandwidth(MemoryLevel level, int threads) const;
};

// Measures again what `operations` gives for some kinds of arithmetic, as a clock that follows heat and load
// asks for: `samples` collects the rates of every call, and the ceilings become their medians.
using ArithmeticSamples = std::map<Arithmetic, std::vector<double>>;
void refresh(Ceilings& ceilings, const std::vector<Arithmetic>& kinds, int threads,
             ArithmeticSamples& samples);

// Everything that the chip has, for each number of threads; some seconds.
Ceilings measure_ceilings(const std::vector<int>& threads);

// A table of at most 100 columns, and the same with raw numbers.
std::string ceilings_text(const Ceilings& ceilings);
Json ceilings_json(const Ceilings& ceilings);

}  // namespace difflet::bench
