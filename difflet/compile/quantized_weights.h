// A float checkpoint as the quantised graph reads it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "difflet/base/error_context.h"
#include "difflet/base/thread_pool.h"
#include "difflet/graph/passes/quantize_linear.h"
#include "difflet/io/checkpoint.h"
#include "difflet/runtime/executable.h"

namespace difflet::compile {

// By the weight's name: what x is multiplied with, [K].
using SmoothVectors = std::map<std::string, std::vector<float>, std::less<>>;

// Runs `f`, and names the file of tensor `name` in a DataLoss that it throws.
template <typename F>
auto naming_file(const io::Checkpoint& checkpoint, const std::string& name, const F& f) {
  return with_context(
      ErrorCode::DataLoss, [&] { return checkpoint.file_of(name).filename().string(); }, f);
}

// Gives <w>_int8, <w>_scale and <w>_smooth of each weight of `plan`, made from the float tensor when
// asked, one at a time; any other name is the checkpoint's tensor, the float form of a planned weight
// too. Several threads may ask, but no task of `threads`.
class QuantizedWeights : public runtime::WeightSource {
 public:
  // `smooth` has a vector for each smoothed weight of the plan. `check_stop` is called before each
  // tensor, and may throw.
  QuantizedWeights(const io::Checkpoint& checkpoint, graph::passes::LinearQuantPlan plan,
                   ThreadPool& threads, std::function<void()> check_stop = nullptr,
                   SmoothVectors smooth = {});

  // Throws DataLoss, naming the tensor, for a missing one and for NaN or Inf in a weight that is
  // quantised; InvalidArgument for a smoothed weight without its vector.
  HostTensor whole(const graph::ParamDecl& param) const override;
  void done(const graph::ParamDecl& param) const override;

 private:
  enum class Kind { Plain, Int8, Scale, Smooth };
  struct Part {
    Kind kind = Kind::Plain;
    std::string weight;
  };
  Part part_of(const std::string& param) const;
  std::span<const float> smooth_of(const std::string& weight) const;
  HostTensor scale_of(const std::string& weight, std::span<const float> smooth) const;

  const io::Checkpoint* checkpoint_;
  graph::passes::LinearQuantPlan plan_;
  ThreadPool* threads_;
  std::function<void()> check_stop_;
  SmoothVectors smooth_;
  std::map<std::string, Part, std::less<>> parts_;
  mutable std::mutex mutex_;  // of scales_ and for the use of threads_
  mutable std::map<std::string, HostTensor, std::less<>> scales_;
};

}  // namespace difflet::compile
