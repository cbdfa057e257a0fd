#include "difflet/compile/weight_mode.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "difflet/base/huge_buffer.h"
#include "difflet/base/timings.h"

namespace difflet::compile {
namespace {

// One word of each cache line: what a pass over weights asks of memory and of the page tables.
std::uint64_t read_lines(std::span<const std::byte> bytes) {
  constexpr std::size_t kLine = 64;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + kLine <= bytes.size(); i += kLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    sum += word;
  }
  return sum;
}

// Bytes a second of the quickest of a few passes: the first ones bring page tables and caches into the
// same state for everybody.
double read_rate(std::span<const std::byte> bytes, std::uint64_t& keep) {
  constexpr int kPasses = 3;
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Stopwatch watch;
    keep += read_lines(bytes);
    best = std::max(best, static_cast<double>(bytes.size()) / std::max(watch.seconds(), 1e-9));
  }
  return best;
}

}  // namespace

std::string WeightModeProbe::text() const {
  return fmt::format(
      "reads {:.1f} GB/s mapped, {:.1f} GB/s on huge pages, copying takes {:.1f} GB/s",
      mapped_rate / 1e9, huge_rate / 1e9, copy_rate / 1e9);
}

WeightModeProbe probe_weight_mode(std::span<const std::byte> sample, std::uint64_t bytes,
                                  std::int64_t runs) {
  WeightModeProbe probe;
  std::uint64_t keep = 0;
  probe.mapped_rate = read_rate(sample, keep);
  HugeBuffer copy(sample.size());
  const Stopwatch watch;
  std::memcpy(copy.data(), sample.data(), sample.size());
  probe.copy_rate = static_cast<double>(sample.size()) / std::max(watch.seconds(), 1e-9);
  probe.huge_rate = read_rate({copy.data(), sample.size()}, keep);
  const double saved = static_cast<double>(runs) * (1 / probe.mapped_rate - 1 / probe.huge_rate);
  // Twice the cost of the sample: huge pages for all of it can be dearer. The sum is used, so that the
  // reads are not left out.
  const bool worth = saved > 2 / probe.copy_rate && bytes > 0 && keep != 1;
  probe.mode = worth ? artifact::ShardMode::Copied : artifact::ShardMode::Mapped;
  return probe;
}

}  // namespace difflet::compile
