// Whether an artifact's weights are used where the page cache has them, or copied into huge pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "difflet/artifact/shard.h"

namespace difflet::compile {

enum class WeightMode : std::uint8_t { Auto, Map, Copy };

struct WeightModeProbe {
  artifact::ShardMode mode = artifact::ShardMode::Mapped;
  double mapped_rate = 0, huge_rate = 0, copy_rate = 0;  // bytes a second
  std::string text() const;                              // for --timings
};

// Reads a sample of mapped weights where they are and copied into huge pages. Copying wins when what
// `runs` passes over `bytes` would save is more than it costs.
WeightModeProbe probe_weight_mode(std::span<const std::byte> sample, std::uint64_t bytes,
                                  std::int64_t runs);

}  // namespace difflet::compile
