// A program loaded on a device, with its weights, ready to run many times.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/graph/graph.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::runtime {

// Where parameters come from. `whole` returns the unsharded tensor in the checkpoint's own dtype.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual HostTensor whole(const graph::ParamDecl& param) const = 0;
  // Said when the tensor has been packed: a mapped file may let its pages go.
  virtual void done(const graph::ParamDecl& /*param*/) const {}
};

struct MemoryReport {
  std::size_t weight_bytes = 0;   // packed parameters
  std::size_t arena_bytes = 0;    // planned activations
  std::size_t scratch_bytes = 0;  // kernels' working memory, all threads

  std::size_t total() const noexcept { return weight_bytes + arena_bytes + scratch_bytes; }
};

// One step of a run: what ran, when, and how much work it is counted as.
struct StepTime {
  std::string what;    // the step's line of explain()
  std::string kernel;  // "linear.avx512bf16.bf16", the first word of it
  double start_s = 0;  // since the run began
  double seconds = 0;
  double flops = 0;  // of products, 2 a multiply-add; 0 for everything else
  double bytes = 0;  // operands (weights too) read once and results written once
};

class Executable {
 public:
  virtual ~Executable() = default;
  // Inputs in the order of Graph::inputs(), outputs in the order of Graph::outputs(). Throws
  // InvalidArgument naming the input when dtype or shape differ from the program's.
  virtual std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) = 0;
  virtual MemoryReport memory() const = 0;
  // One line for each kernel or refusal: what runs each op and why (difflet inspect --why).
  virtual std::vector<std::string> explain() const { return {}; }
  // Where the last run's time went, in the order of the steps; empty before a run and where the backend
  // does not measure.
  virtual std::vector<StepTime> profile() const { return {}; }
};

}  // namespace difflet::runtime
