// A component's programs, split by binding time, and their execution as one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/backend.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::compile {

using NamedTensors = std::map<std::string, HostTensor>;

// Programs of one set of shapes. What the request program returns is read by the two others under the
// same names, what the schedule program returns by the step program.
struct StagedPrograms {
  std::optional<runtime::CompiledProgram> request;   // once a request
  std::optional<runtime::CompiledProgram> schedule;  // once for each `capacity` timesteps
  runtime::CompiledProgram step;
  std::int64_t capacity = 1;

  std::vector<const runtime::CompiledProgram*> all() const&;
  std::vector<const runtime::CompiledProgram*> all() const&& = delete;  // they point into this
};

// Splits the graph and compiles the parts. Throws what Backend::compile() throws.
StagedPrograms compile_programs(const graph::Graph& joined, std::int64_t schedule_capacity,
                                const runtime::Backend& backend, Context& context,
                                const runtime::BackendOptions& options);

// Sum over the programs; a piece that several read counts once. What the request and schedule programs
// return counts as activations: it is held for as long as one request lasts.
runtime::MemoryReport planned_memory(const StagedPrograms& programs,
                                     const runtime::Backend& backend, Context& context,
                                     const runtime::BackendOptions& options);

class StagedExecutable {
 public:
  // `weights`: one for each rank.
  StagedExecutable(const StagedPrograms& programs,
                   const std::vector<std::shared_ptr<const runtime::PackedWeights>>& weights,
                   const runtime::Backend& backend, Context& context,
                   const runtime::BackendOptions& options);
  StagedExecutable(const StagedExecutable&) = delete;
  StagedExecutable& operator=(const StagedExecutable&) = delete;

  // The values of one request, computed once or, of the schedule, a chunk at a time.
  class Request {
   private:
    friend class StagedExecutable;
    NamedTensors values_;    // inputs and results of the request program
    NamedTensors schedule_;  // inputs with a leading axis of timesteps
    NamedTensors chunk_;     // results of the schedule program for timesteps from begin_
    std::int64_t begin_ = -1;
    std::int64_t steps_ = 0;
  };

  // Runs the request program. Inputs that are bound to the schedule have a leading axis, the same for
  // all: one entry a timestep. Floats are converted to the dtype of their input, integers likewise.
  // Throws InvalidArgument for a missing name, another kind of number or another shape.
  Request begin(const NamedTensors& request, const NamedTensors& schedule);
  // Runs step `index`, 0 <= index < timesteps of the request; `inputs` are those bound to the step.
  NamedTensors step(Request& request, std::int64_t index, const NamedTensors& inputs);
  // All inputs of the joined graph at once. Also throws InvalidArgument for an unknown name.
  NamedTensors run(const NamedTensors& inputs);

  // The last run of each program, in the order request, schedule, step.
  struct ProgramProfile {
    std::string program;    // "request", "schedule" or "step"
    std::int64_t runs = 0;  // so far
    std::vector<runtime::StepTime> steps;
  };
  std::vector<ProgramProfile> profile() const;

  // Of the joined graph.
  const std::vector<runtime::Port>& inputs() const noexcept { return inputs_; }

 private:
  struct Part {
    const runtime::CompiledProgram* program = nullptr;
    std::unique_ptr<runtime::Executable> executable;
    std::int64_t runs = 0;
    NamedTensors run(const std::vector<HostTensor>& inputs);
  };
  void collect_inputs();
  void run_chunk(Request& request, std::int64_t begin);

  StagedPrograms programs_;
  std::optional<Part> request_, schedule_;
  Part step_;
  std::vector<runtime::Port> inputs_;
  std::map<std::string, graph::Binding, std::less<>> bound_;
};

}  // namespace difflet::compile
