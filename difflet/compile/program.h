// A loaded program with its inputs and outputs by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/backend.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::compile {

using NamedTensors = std::map<std::string, HostTensor>;

struct Port {
  std::string name;
  graph::Type type;
};

// In the order of Graph::inputs().
std::vector<Port> input_ports(const graph::Graph& graph);

class Program {
 public:
  Program(const graph::Graph& graph, const runtime::WeightSource& weights,
          const runtime::Backend& backend, Context& context, const runtime::BackendOptions& options);

  // Floats are converted to the dtype of their input, integers likewise. Throws InvalidArgument for
  // a missing or unknown name, another kind of number or another shape, naming the input.
  NamedTensors run(const NamedTensors& inputs);
  const std::vector<Port>& inputs() const noexcept { return inputs_; }
  const runtime::Executable& executable() const noexcept { return *executable_; }

 private:
  std::string name_;
  std::vector<Port> inputs_;
  std::vector<std::string> outputs_;
  std::unique_ptr<runtime::Executable> executable_;
};

}  // namespace difflet::compile
