// Writing a component with int8 weights as a folder, which ComponentFolder::open() reads as such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "difflet/base/thread_pool.h"
#include "difflet/compile/component.h"
#include "difflet/compile/quantized_weights.h"
#include "difflet/io/safetensors_writer.h"

namespace difflet::compile {

// The tensors of a float checkpoint with those of the planned layers in their int8 form: "<w>_int8",
// "<w>_scale" and, smoothed, "<w>_smooth". What the model ignores is left out.
std::vector<io::TensorDecl> quantised_tensors(const ComponentFolder& folder,
                                              const LinearQuantPlan& plan);

// Writes weight files, named as those of `folder` (of float weights) with this variant, and its config
// with "quantization_config" into `output`, a folder. One tensor is in memory at a time. `progress` is
// called before each tensor and may throw to stop: nothing is left then. Throws DataLoss, naming the
// tensor, for NaN or Inf in a quantised weight; ResourceExhausted (disk full), Unavailable.
void write_quantised(const ComponentFolder& folder, const ComponentQuant& quant,
                     const SmoothVectors& smooth, const std::string& variant,
                     const std::filesystem::path& output, ThreadPool& threads,
                     const std::function<void(std::size_t done, std::size_t total)>& progress);

// One group of layers, for a table.
struct GroupSize {
  std::string group;
  std::size_t layers = 0, kept = 0;     // kept: of the layers, those with their float weight
  std::uint64_t before = 0, after = 0;  // bytes of all its weights, kept ones too

  bool operator==(const GroupSize&) const = default;
};
// In order of their names. `floats` is the checkpoint that `quant` is of.
std::vector<GroupSize> group_sizes(const ComponentQuant& quant, const io::Checkpoint& floats);

}  // namespace difflet::compile
