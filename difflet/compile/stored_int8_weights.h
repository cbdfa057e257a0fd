// Int8 weights out of a folder that difflet quantize wrote, looked at before they are used.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "difflet/compile/component.h"
#include "difflet/graph/passes/quantize_linear.h"

namespace difflet::compile {

// Names of the tensors that hold the int8 form of the plan's layers.
std::set<std::string, std::less<>> stored_int8_names(const graph::passes::LinearQuantPlan& plan);

// The checkpoint's tensors. What the plan's layers are made of is checked as it is read, for what no
// quantisation writes.
class StoredInt8Weights : public CheckpointWeights {
 public:
  StoredInt8Weights(const io::Checkpoint& checkpoint, const graph::passes::LinearQuantPlan& plan,
                    std::function<void()> check_stop = nullptr);

  // Throws DataLoss, naming tensor and file, for an int8 value of -128 and for a scale or a smoothing
  // factor that is not positive, not a normal number or so large that products overflow.
  HostTensor whole(const graph::ParamDecl& param) const override;

 private:
  const io::Checkpoint* checkpoint_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace difflet::compile
