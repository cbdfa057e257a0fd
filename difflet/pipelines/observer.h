// What a pipeline tells while it runs, and how it is asked to stop.
#pragma once

#include <cstdint>
#include <string_view>

#include "difflet/compile/staged.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::pipelines {

class Observer {
 public:
  virtual ~Observer() = default;
  // A stage ("load transformer", "encode", "denoise", "decode") begins, and has ended.
  virtual void stage_begin(std::string_view /*name*/) {}
  virtual void stage_end(std::string_view /*name*/, double /*seconds*/) {}
  // `done` of `total` denoising steps are behind, the last one took `seconds`.
  virtual void step(std::int64_t /*done*/, std::int64_t /*total*/, double /*seconds*/) {}
  // Intermediate results under the names of tests/golden/README.md.
  virtual void tensor(std::string_view /*name*/, const HostTensor& /*value*/) {}
  // A component runs with these inputs next: those of its traced graph, of a denoising step those of
  // all bindings.
  virtual void component_inputs(std::string_view /*component*/,
                                const compile::NamedTensors& /*inputs*/) {}
  // Called between steps, pictures and weights; throws Cancelled to stop.
  virtual void check_stop() {}
};

}  // namespace difflet::pipelines
