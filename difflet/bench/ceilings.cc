#include "difflet/bench/ceilings.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "difflet/base/units.h"

namespace difflet::bench {
namespace {

std::string_view page_name(PageSize size) { return size == PageSize::Small ? "4 KB" : "2 MB"; }

void add_caches(Ceilings& ceilings, int threads) {
  const CacheSizes& sizes = ceilings.caches;
  const auto count = static_cast<std::size_t>(threads);
  // Half of a core's own caches; of the shared one a part that no private cache holds, and that leaves
  // room for others.
  const std::size_t shared = std::max(sizes.l3 / 2 / count, 2 * sizes.l2);
  for (const auto& [level, bytes] :
       {std::pair(MemoryLevel::L1, sizes.l1 / 2), std::pair(MemoryLevel::L2, sizes.l2 / 2),
        std::pair(MemoryLevel::L3, shared)}) {
    const Resource resource = level == MemoryLevel::L3 ? Resource::Shared : Resource::Core;
    ceilings.memory.push_back({.level = level,
                               .access = Access::Read,
                               .pages = PageSize::Huge,
                               .bytes = bytes,
                               .threads = threads,
                               .rate = measure_cache(bytes, threads, resource)});
  }
}

void add_memory(Ceilings& ceilings, int threads) {
  for (const PageSize pages : {PageSize::Small, PageSize::Huge}) {
    for (const Access access : kAccesses) {
      ceilings.memory.push_back({.level = MemoryLevel::Memory,
                                 .access = access,
                                 .pages = pages,
                                 .bytes = 0,
                                 .threads = threads,
                                 .rate = measure_memory(access, pages, threads)});
    }
  }
}

std::string memory_name(const MemoryCeiling& c) {
  std::string name = fmt::format("{} {}", memory_level_name(c.level), access_name(c.access));
  return c.level == MemoryLevel::Memory ? fmt::format("{}, {} pages", name, page_name(c.pages))
                                        : fmt::format("{}, {}", name, readable_bytes(c.bytes));
}

std::string line(const std::string& name, int threads, const Measured& rate,
                 std::string_view unit) {
  if (rate.windows == 0) {
    return fmt::format("{:<28} {:>3} threads   not measured: no window without a stop\n", name,
                       threads);
  }
  const double all = threads * 1e-9;
  return fmt::format("{:<28} {:>3} threads {:>9.1f} {:<7} {:>9.1f} ... {:<9.1f} {:>4} windows\n",
                     name, threads, rate.median * all, unit, rate.low * all, rate.high * all,
                     rate.windows);
}

Json rate_json(const Measured& rate) {
  return {{"median_per_thread", rate.median},
          {"p5_per_thread", rate.low},
          {"p95_per_thread", rate.high},
          {"windows", rate.windows}};
}

}  // namespace

double ceiling_gflops(Arithmetic arithmetic, int threads) {
  return measure_arithmetic(arithmetic, threads).median * 1e-9;
}

Arithmetic arithmetic_of_level(std::string_view level, DType dtype) {
  if (dtype == DType::BF16 && level == "amx") {
    return Arithmetic::Bf16Amx;
  }
  if (dtype == DType::BF16 && level == "avx512bf16") {
    return Arithmetic::Bf16Zmm;
  }
  if (level == "scalar") {
    return Arithmetic::F32Xmm;
  }
  return level == "avx2" ? Arithmetic::F32Ymm : Arithmetic::F32Zmm;
}

std::string_view memory_level_name(MemoryLevel level) noexcept {
  constexpr std::string_view kNames[] = {"L1", "L2", "L3", "memory"};
  return kNames[static_cast<std::size_t>(level)];
}

double Ceilings::operations(Arithmetic wanted, int threads) const {
  for (const ArithmeticCeiling& c : arithmetic) {
    if (c.arithmetic == wanted && c.threads == threads) {
      return c.rate.median * threads;
    }
  }
  return 0;
}

double Ceilings::bandwidth(MemoryLevel level, int threads) const {
  for (const MemoryCeiling& c : memory) {
    if (c.level == level && c.threads == threads && c.access == Access::Read &&
        c.pages == PageSize::Huge) {
      return c.rate.median * threads;
    }
  }
  return 0;
}

void refresh(Ceilings& ceilings, const std::vector<Arithmetic>& kinds, int threads,
             ArithmeticSamples& samples) {
  for (ArithmeticCeiling& c : ceilings.arithmetic) {
    if (c.threads == threads &&
        std::find(kinds.begin(), kinds.end(), c.arithmetic) != kinds.end()) {
      std::vector<double>& rates = samples[c.arithmetic];
      if (const Measured now = measure_arithmetic(c.arithmetic, threads); now.windows > 0) {
        rates.push_back(now.median);
        c.rate = summary_of(rates);
      }
    }
  }
}

Ceilings measure_ceilings(const std::vector<int>& threads) {
  Ceilings ceilings;
  ceilings.caches = cache_sizes();
  for (const int count : threads) {
    for (const Arithmetic arithmetic : kArithmetics) {
      if (chip_has(arithmetic)) {
        ceilings.arithmetic.push_back({.arithmetic = arithmetic,
                                       .threads = count,
                                       .rate = measure_arithmetic(arithmetic, count)});
      }
    }
    add_caches(ceilings, count);
    add_memory(ceilings, count);
  }
  return ceilings;
}

std::string ceilings_text(const Ceilings& ceilings) {
  std::string text;
  for (const ArithmeticCeiling& c : ceilings.arithmetic) {
    const std::string_view name = arithmetic_name(c.arithmetic);
    text +=
        line(std::string(name), c.threads, c.rate, name.starts_with("int") ? "GOP/s" : "GFLOP/s");
  }
  for (const MemoryCeiling& c : ceilings.memory) {
    text += line(memory_name(c), c.threads, c.rate, "GB/s");
  }
  return text;
}

Json ceilings_json(const Ceilings& ceilings) {
  Json arithmetic = Json::array();
  for (const ArithmeticCeiling& c : ceilings.arithmetic) {
    arithmetic.push_back({{"arithmetic", arithmetic_name(c.arithmetic)},
                          {"threads", c.threads},
                          {"operations_per_second", rate_json(c.rate)}});
  }
  Json memory = Json::array();
  for (const MemoryCeiling& c : ceilings.memory) {
    memory.push_back({{"level", memory_level_name(c.level)},
                      {"access", access_name(c.access)},
                      {"pages", page_name(c.pages)},
                      {"bytes_per_thread", c.bytes},
                      {"threads", c.threads},
                      {"bytes_per_second", rate_json(c.rate)}});
  }
  return {{"arithmetic", arithmetic}, {"memory", memory}};
}

}  // namespace difflet::bench
