// A complete diffusers folder of FLUX.1 at full width with deterministic weights and any number of
// layers, so that real shapes are measured without a download. The same bytes on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "difflet/base/log.h"

namespace difflet::bench {

// How deep the parts are; every width is that of FLUX.1-dev, all weights are bf16. FLUX.1-dev itself
// has 19 double and 38 single blocks, 24 T5 layers and 12 CLIP layers: 34 GB.
struct SyntheticFlux {
  std::int64_t doubles = 2;  // double blocks, 0 ... 1000
  std::int64_t singles = 4;  // single blocks, 0 ... 1000
  std::int64_t t5_layers = 4;
  std::int64_t clip_layers = 12;  // both 1 ... 1000
  bool operator==(const SyntheticFlux&) const noexcept = default;
};

// Whether `folder` holds what write_synthetic() of this version writes for `recipe`.
bool is_synthetic(const std::filesystem::path& folder, const SyntheticFlux& recipe);

// Writes model_index.json, transformer/, vae/, text_encoder/, text_encoder_2/, tokenizer/, tokenizer_2/
// and scheduler/, with all cores and some megabytes of memory. A folder of the same recipe stays as it
// is; a synthetic one of another recipe is replaced, also after an interruption only as a whole
// (base/partial_folder.h). Throws InvalidArgument for a recipe out of range or a folder that holds
// something else, ResourceExhausted (disk full), Unavailable.
// `check_stop` is called for every few megabytes, from any thread: what it throws ends the writing.
void write_synthetic(
    const SyntheticFlux& recipe, const std::filesystem::path& folder, Log& log,
    const std::function<void()>& check_stop = [] {});

}  // namespace difflet::bench
