#include "difflet/compile/program.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "difflet/base/error.h"

namespace difflet::compile {
namespace {

HostTensor converted(const Port& port, const HostTensor& given) {
  check(given.shape() == port.type.shape, ErrorCode::InvalidArgument,
        "input '{}' must be {}, got {}", port.name, port.type.str(), given.shape().str());
  try {
    return given.to(port.type.dtype);
  } catch (Error& e) {
    e.add_context(fmt::format("input '{}'", port.name));
    throw;
  }
}

}  // namespace

std::vector<Port> input_ports(const graph::Graph& graph) {
  std::vector<Port> ports;
  for (const graph::NodeId id : graph.inputs()) {
    const graph::Node& node = graph.node(id);
    ports.push_back({std::get<graph::Input>(node.op).name, node.type});
  }
  return ports;
}

Program::Program(const graph::Graph& graph, const runtime::WeightSource& weights,
                 const runtime::Backend& backend, Context& context,
                 const runtime::BackendOptions& options)
    : name_(graph.name()),
      inputs_(input_ports(graph)),
      executable_(backend.load(graph, weights, context, options)) {
  for (const graph::Output& output : graph.outputs()) {
    outputs_.push_back(output.name);
  }
}

NamedTensors Program::run(const NamedTensors& inputs) {
  for (const auto& [name, tensor] : inputs) {
    check(std::any_of(inputs_.begin(), inputs_.end(),
                      [&](const Port& port) { return port.name == name; }),
          ErrorCode::InvalidArgument, "program '{}' has no input '{}'", name_, name);
  }
  std::vector<HostTensor> ordered;
  for (const Port& port : inputs_) {
    const auto found = inputs.find(port.name);
    check(found != inputs.end(), ErrorCode::InvalidArgument, "input '{}' is missing", port.name);
    ordered.push_back(converted(port, found->second));
  }
  std::vector<HostTensor> results = executable_->run(ordered);
  require(results.size() == outputs_.size(), "an executable with another number of outputs");
  NamedTensors named;
  for (std::size_t i = 0; i < results.size(); ++i) {
    named.emplace(outputs_[i], std::move(results[i]));
  }
  return named;
}

}  // namespace difflet::compile
