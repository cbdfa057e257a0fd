// A component folder of a checkpoint, opened and checked, and its way to an executable.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "difflet/base/context.h"
#include "difflet/base/error.h"
#include "difflet/compile/quant.h"
#include "difflet/io/checkpoint.h"
#include "difflet/models/common/component.h"
#include "difflet/runtime/backend.h"

namespace difflet::compile {

class ComponentFolder {
 public:
  // Reads config.json and every safetensors header. `class_name` overrides what the config says
  // (model_index.json names it); empty: the config decides. Unknown config fields are warned about. A
  // folder with a quantization_config has int8 weights from the start.
  static ComponentFolder open(const std::filesystem::path& folder, const std::string& class_name,
                              const std::string& variant, Log& log);

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::string& class_name() const noexcept { return class_name_; }
  const models::Component& model() const noexcept { return *model_; }
  // The model as its own type; Internal when it is another.
  template <typename T>
  const T& as() const {
    const auto* p = dynamic_cast<const T*>(model_.get());
    if (p == nullptr) {
      fail(ErrorCode::Internal, "internal error: {} is a {}", path_.string(), class_name_);
    }
    return *p;
  }
  const io::Checkpoint& checkpoint() const noexcept { return checkpoint_; }

  const ComponentQuant& quant() const noexcept { return quant_; }
  // What a request that is not for this folder alone is checked against; valid as long as this is.
  QuantSubject quant_subject() const noexcept;
  // Gives the layers what `request` asks for. Throws InvalidArgument for a folder of stored int8
  // weights when it asks for something else.
  void quantise(const QuantRequest& request);

  // Traces and compares every parameter with the headers: all missing, unexpected and misshapen
  // tensors are named in one DataLoss error. Reads no weight. Quantised layers read int8 weights.
  graph::Graph trace(const models::ShapeMap& inputs, DType dtype,
                     const spmd::Mesh& mesh = {}) const;
  // With float weights everywhere; parameters are compared unless the folder stores int8 ones.
  graph::Graph trace_float(const models::ShapeMap& inputs, DType dtype,
                           const spmd::Mesh& mesh = {}) const;
  // Where the parameters of trace() come from. `check_stop` is called before each, and may throw:
  // packing can take minutes. Both this and `threads` must outlive it.
  std::unique_ptr<runtime::WeightSource> weights(ThreadPool& threads,
                                                 std::function<void()> check_stop = nullptr) const;

 private:
  void check_parameters(const graph::Graph& graph) const;

  std::filesystem::path path_;
  std::string class_name_;
  std::unique_ptr<models::Component> model_;
  io::Checkpoint checkpoint_;
  ComponentQuant quant_;
};

// Quantises components that are run together; one without such layers stays as it is. Throws what
// check_quant_request() and ComponentFolder::quantise() throw.
void quantise(std::span<ComponentFolder* const> folders, const QuantRequest& request);

// Parameters out of a checkpoint: by name or alias, with trailing axes of extent 1 dropped where the
// declaration has fewer. Lets mapped pages go once a tensor has been packed.
class CheckpointWeights : public runtime::WeightSource {
 public:
  // `check_stop` is called before each tensor, and may throw: packing can take minutes.
  explicit CheckpointWeights(const io::Checkpoint& checkpoint,
                             std::function<void()> check_stop = nullptr)
      : checkpoint_(&checkpoint), check_stop_(std::move(check_stop)) {}
  HostTensor whole(const graph::ParamDecl& param) const override;
  void done(const graph::ParamDecl& param) const override;

 private:
  const io::Checkpoint* checkpoint_;
  std::function<void()> check_stop_;
};

}  // namespace difflet::compile
