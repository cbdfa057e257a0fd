#include "difflet/compile/verify.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "difflet/base/error.h"
#include "difflet/compile/segment_values.h"
#include "difflet/graph/passes/extract.h"

namespace difflet::compile {
namespace {

double largest_magnitude(const HostTensor& tensor) {
  double largest = 0;
  for (const float v : tensor.to_floats()) {
    largest = std::max(largest, std::abs(static_cast<double>(v)));
  }
  return largest;
}

std::string index_text(const Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> index(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

void verify_blocks(const graph::Graph& graph, const NamedTensors& inputs,
                   const runtime::WeightSource& weights, const runtime::Backend& reference,
                   const runtime::Backend& backend, const runtime::BackendOptions& options,
                   Context& context, const std::function<void(const BlockDifference&)>& report) {
  const std::vector<graph::passes::Segment> segments = graph::passes::segments(graph);
  SegmentValues values(inputs, segments);
  for (std::size_t index = 0; index < segments.size(); ++index) {
    const graph::passes::Segment& segment = segments[index];
    const std::vector<HostTensor> taken = values.inputs_of(index);
    const std::vector<HostTensor> expected =
        reference.load(segment.graph, weights, context, {})->run(taken);
    const std::vector<HostTensor> got =
        backend.load(segment.graph, weights, context, options)->run(taken);
    const std::vector<runtime::Port> ports = runtime::output_ports(segment.graph);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      BlockDifference d{.block = segment.name,
                        .output = ports[i].name,
                        .type = ports[i].type,
                        .difference = compare(got[i], expected[i]),
                        .largest = largest_magnitude(expected[i]),
                        .worst_index = ""};
      d.worst_index = index_text(expected[i].shape(), d.difference.worst);
      report(d);
    }
    values.after(index, expected);
  }
}

NamedTensors noise_inputs(const graph::Graph& graph) {
  return noise_inputs(runtime::input_ports(graph));
}

NamedTensors noise_inputs(const std::vector<runtime::Port>& ports) {
  NamedTensors inputs;
  std::uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525U + 1013904223U;
    return state >> 8U;
  };
  for (const runtime::Port& port : ports) {
    const Shape& shape = port.type.shape;
    if (!is_float(port.type.dtype)) {
      HostTensor ids(DType::I32, shape);
      for (std::int32_t& id : ids.mutable_as<std::int32_t>()) {
        id = static_cast<std::int32_t>(next() % 8);
      }
      inputs.emplace(port.name, ids.to(port.type.dtype));
      continue;
    }
    HostTensor noise(DType::F32, shape);
    for (float& v : noise.mutable_as<float>()) {
      const float unit = static_cast<float>(next()) * 0x1p-24F;  // [0, 1)
      v = shape.rank() <= 1 ? unit : 2 * unit - 1;
    }
    inputs.emplace(port.name, noise.to(port.type.dtype));
  }
  return inputs;
}

}  // namespace difflet::compile
