#include "difflet/bench/roofline.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "difflet/base/error.h"
#include "difflet/bench/statistics.h"

namespace difflet::bench {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// One step, or the sum of many.
void add(RooflineRow& row, const runtime::StepTime& step, double operations, double bandwidth) {
  const double compute_s = operations > 0 ? step.flops / operations : 0;
  const double memory_s = bandwidth > 0 ? step.bytes / bandwidth : 0;
  row.work.steps += 1;
  row.work.seconds += step.seconds;
  row.work.flops += step.flops;
  row.work.bytes += step.bytes;
  row.compute_s += compute_s;
  row.bound_s += std::max(compute_s, memory_s);
}

// Time that steps of less operations than bytes have in the bound.
struct Sums {
  RooflineRow row;
  double memory_bound_s = 0;
};

std::string row_text(const std::string& name, const RooflineRow& r) {
  const double s = r.work.seconds;
  return fmt::format(
      "{:<31.31} {:>5} {:>9.2f} {:>9.2f} {:>8.1f} {:>7.1f} {:>7.1f} {:>7} {:>6.1f}\n", name,
      r.work.steps, s * 1e3, r.work.flops * 1e-9, s > 0 ? r.work.flops / s * 1e-9 : 0,
      s > 0 ? r.work.bytes / s * 1e-9 : 0, r.intensity(), r.memory_bound ? "memory" : "compute",
      100 * r.share());
}

Json row_json(const RooflineRow& r) {
  return {{"kernel", r.work.kernel},
          {"steps", r.work.steps},
          {"seconds", r.work.seconds},
          {"flops", r.work.flops},
          {"bytes", r.work.bytes},
          {"flops_per_byte", r.intensity()},
          {"bound", r.memory_bound ? "memory" : "compute"},
          {"bound_seconds", r.bound_s},
          {"share_of_bound", r.share()},
          {"share_of_compute_ceiling", r.compute_share()}};
}

}  // namespace

double Bounds::operations(std::string_view kernel) const {
  return ceilings->operations(arithmetic_of_kernel(kernel, level), threads);
}

double Bounds::bandwidth() const { return ceilings->bandwidth(memory, threads); }

Arithmetic arithmetic_of_kernel(std::string_view kernel, std::string_view level) {
  // int8 times int8, in words where no instruction multiplies bytes without losing carries.
  if (contains(kernel, ".w8a8")) {
    constexpr std::array kBytes{
        std::pair("amx", Arithmetic::Int8Amx), std::pair("avx512vnni", Arithmetic::Int8Zmm),
        std::pair("avx512", Arithmetic::Int16Zmm), std::pair("avx2", Arithmetic::Int16Ymm)};
    for (const auto& [name, arithmetic] : kBytes) {
      if (contains(kernel, name)) {
        return arithmetic;
      }
    }
  }
  for (const std::string_view name : {"amx", "avx512bf16"}) {
    if (contains(kernel, name)) {
      return arithmetic_of_level(name, DType::BF16);
    }
  }
  if (contains(kernel, "conv.") && contains(kernel, ".bf16")) {
    return arithmetic_of_level(level, DType::BF16);
  }
  for (const std::string_view name : {"avx512", "avx2", "scalar"}) {
    if (contains(kernel, name)) {
      return arithmetic_of_level(name, DType::F32);
    }
  }
  return arithmetic_of_level(level, DType::F32);
}

MemoryLevel memory_that_holds(std::size_t bytes, const CacheSizes& caches, int threads) {
  const auto cores = static_cast<std::size_t>(threads);
  if (bytes <= caches.l1 * cores) {
    return MemoryLevel::L1;
  }
  if (bytes <= caches.l2 * cores) {
    return MemoryLevel::L2;
  }
  return bytes <= caches.l3 ? MemoryLevel::L3 : MemoryLevel::Memory;
}

Roofline roofline(std::string program, const std::vector<runtime::StepTime>& steps,
                  const Bounds& bounds) {
  const double bandwidth = bounds.bandwidth();
  std::map<std::string, Sums> kernels;
  Sums all;
  for (const runtime::StepTime& step : steps) {
    const double operations = bounds.operations(step.kernel);
    Sums& sums = kernels[step.kernel];
    sums.row.work.kernel = step.kernel;
    for (Sums* s : {&sums, &all}) {
      const double compute_s = s->row.compute_s;
      const double bound_s = s->row.bound_s;
      add(s->row, step, operations, bandwidth);
      const double step_bound_s = s->row.bound_s - bound_s;
      s->memory_bound_s += step_bound_s > s->row.compute_s - compute_s ? step_bound_s : 0;
    }
  }
  Roofline r{.program = std::move(program), .memory = bounds.memory, .rows = {}, .total = {}};
  const auto finished = [](const Sums& sums) {
    RooflineRow row = sums.row;
    row.memory_bound = sums.memory_bound_s > row.bound_s / 2;
    return row;
  };
  for (const auto& [kernel, sums] : kernels) {
    r.rows.push_back(finished(sums));
  }
  std::stable_sort(r.rows.begin(), r.rows.end(), [](const RooflineRow& a, const RooflineRow& b) {
    return a.work.seconds > b.work.seconds;
  });
  r.total = finished(all);
  return r;
}

std::vector<runtime::StepTime> median_steps(
    const std::vector<std::vector<runtime::StepTime>>& runs) {
  require(!runs.empty(), "steps of no run");
  std::vector<runtime::StepTime> steps = runs.front();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<double> start;
    std::vector<double> length;
    for (const std::vector<runtime::StepTime>& run : runs) {
      require(run.size() == steps.size() && run[i].what == steps[i].what, "runs of two programs");
      start.push_back(run[i].start_s);
      length.push_back(run[i].seconds);
    }
    steps[i].start_s = median(start);
    steps[i].seconds = median(length);
  }
  return steps;
}

std::string roofline_text(const Roofline& r) {
  std::string text =
      fmt::format("{:<31} {:>5} {:>9} {:>9} {:>8} {:>7} {:>7} {:>7} {:>6}\n", r.program, "steps",
                  "ms", "GFLOP", "GFLOP/s", "GB/s", "FLOP/B", "bound", "share");
  for (const RooflineRow& row : r.rows) {
    text += row_text(row.work.kernel, row);
  }
  text += row_text("all", r.total);
  return text + fmt::format("{:.1f} % of the compute ceiling; bytes come from {}\n",
                            100 * r.total.compute_share(), memory_level_name(r.memory));
}

Json roofline_json(const Roofline& r) {
  Json rows = Json::array();
  for (const RooflineRow& row : r.rows) {
    rows.push_back(row_json(row));
  }
  Json total = row_json(r.total);
  total.erase("kernel");
  return {{"program", r.program},
          {"memory", memory_level_name(r.memory)},
          {"kernels", rows},
          {"total", total}};
}

}  // namespace difflet::bench
