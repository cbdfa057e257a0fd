// The values that pass between the segments of a graph while they run one after another.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "difflet/compile/staged.h"
#include "difflet/graph/passes/extract.h"

namespace difflet::compile {

class SegmentValues {
 public:
  // `inputs`: of the whole graph. `segments` must outlive this.
  SegmentValues(NamedTensors inputs, std::span<const graph::passes::Segment> segments);

  // Inputs of segments[index], in its order and of its types. Throws InvalidArgument, naming the input,
  // for one that is missing or has another shape.
  std::vector<HostTensor> inputs_of(std::size_t index) const;
  // Keeps what segments[index] returned for the segments after it, and drops what none of them reads.
  void after(std::size_t index, const std::vector<HostTensor>& outputs);

 private:
  NamedTensors values_;
  std::span<const graph::passes::Segment> segments_;
  std::map<std::string, std::size_t> last_reader_;  // by name; absent: nobody reads it
};

}  // namespace difflet::compile
