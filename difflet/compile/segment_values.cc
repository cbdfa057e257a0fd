#include "difflet/compile/segment_values.h"

#include <utility>

#include "difflet/base/error.h"

namespace difflet::compile {

SegmentValues::SegmentValues(NamedTensors inputs, std::span<const graph::passes::Segment> segments)
    : values_(std::move(inputs)), segments_(segments) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (const runtime::Port& port : runtime::input_ports(segments[i].graph)) {
      last_reader_[port.name] = i;
    }
  }
}

std::vector<HostTensor> SegmentValues::inputs_of(std::size_t index) const {
  std::vector<HostTensor> inputs;
  for (const runtime::Port& port : runtime::input_ports(segments_[index].graph)) {
    const auto found = values_.find(port.name);
    check(found != values_.end(), ErrorCode::InvalidArgument, "input '{}' is missing", port.name);
    check(found->second.shape() == port.type.shape, ErrorCode::InvalidArgument,
          "input '{}' must be {}, got {}", port.name, port.type.str(), found->second.shape().str());
    inputs.push_back(found->second.to(port.type.dtype));
  }
  return inputs;
}

void SegmentValues::after(std::size_t index, const std::vector<HostTensor>& outputs) {
  const std::vector<runtime::Port> ports = runtime::output_ports(segments_[index].graph);
  require(ports.size() <= outputs.size(), "a segment with fewer results than outputs");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    values_.insert_or_assign(ports[i].name, outputs[i]);
  }
  std::erase_if(values_, [&](const auto& value) {
    const auto reader = last_reader_.find(value.first);
    return reader == last_reader_.end() || reader->second <= index;
  });
}

}  // namespace difflet::compile
