#include "difflet/compile/staged.h"

#include <algorithm>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/graph/passes/split_bindings.h"

namespace difflet::compile {
namespace {

using graph::Binding;
using runtime::CompiledProgram;
using runtime::Port;

HostTensor converted(const std::string& name, const graph::Type& type, const HostTensor& given) {
  check(given.shape() == type.shape, ErrorCode::InvalidArgument, "input '{}' must be {}, got {}",
        name, type.str(), given.shape().str());
  try {
    return given.to(type.dtype);
  } catch (Error& e) {
    e.add_context(fmt::format("input '{}'", name));
    throw;
  }
}

const HostTensor& named(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  check(found != tensors.end(), ErrorCode::InvalidArgument, "input '{}' is missing", name);
  return found->second;
}

Shape with_leading(std::int64_t extent, const Shape& shape) {
  std::vector<std::int64_t> dims{extent};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

Shape without_leading(const Shape& shape) {
  return Shape(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

// Entry `index` of the leading axis, as a view.
HostTensor entry(const HostTensor& all, std::int64_t index) {
  const Shape shape = without_leading(all.shape());
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * dtype_bytes(all.dtype());
  return {all.dtype(), shape, all.bytes().subspan(static_cast<std::size_t>(index) * bytes, bytes),
          std::make_shared<HostTensor>(all)};
}

// `extent` entries from `begin`; the last one repeats where there are no more.
HostTensor padded_entries(const HostTensor& all, std::int64_t begin, std::int64_t extent) {
  const Shape one = without_leading(all.shape());
  const std::size_t bytes = static_cast<std::size_t>(one.elements()) * dtype_bytes(all.dtype());
  HostTensor out(all.dtype(), with_leading(extent, one));
  for (std::int64_t i = 0; i < extent; ++i) {
    const std::int64_t from = std::min(begin + i, all.shape()[0] - 1);
    std::copy_n(all.bytes().begin() + from * static_cast<std::int64_t>(bytes), bytes,
                out.mutable_bytes().begin() + i * static_cast<std::int64_t>(bytes));
  }
  return out;
}

bool gives(const std::optional<CompiledProgram>& program, const std::string& name) {
  return program && std::any_of(program->outputs.begin(), program->outputs.end(),
                                [&](const Port& port) { return port.name == name; });
}

}  // namespace

std::vector<const CompiledProgram*> StagedPrograms::all() const& {
  std::vector<const CompiledProgram*> programs;
  for (const auto* optional : {&request, &schedule}) {
    if (*optional) {
      programs.push_back(&**optional);
    }
  }
  programs.push_back(&step);
  return programs;
}

StagedPrograms compile_programs(const graph::Graph& joined, std::int64_t schedule_capacity,
                                const runtime::Backend& backend, Context& context,
                                const runtime::BackendOptions& options) {
  const graph::passes::SplitGraph split =
      graph::passes::split_bindings(joined, {.schedule_capacity = schedule_capacity});
  StagedPrograms programs;
  programs.capacity = schedule_capacity;
  if (split.request) {
    programs.request = backend.compile(*split.request, context, options);
  }
  if (split.schedule) {
    programs.schedule = backend.compile(*split.schedule, context, options);
  }
  programs.step = backend.compile(split.step, context, options);
  return programs;
}

runtime::MemoryReport planned_memory(const StagedPrograms& programs,
                                     const runtime::Backend& backend, Context& context,
                                     const runtime::BackendOptions& options) {
  runtime::MemoryReport sum;
  std::set<std::string_view> pieces;
  for (const CompiledProgram* program : programs.all()) {
    const runtime::MemoryReport one = backend.plan(*program, context, options);
    sum.arena_bytes += one.arena_bytes;
    sum.scratch_bytes += one.scratch_bytes;
    if (program != &programs.step) {
      for (const Port& output : program->outputs) {
        sum.arena_bytes +=
            static_cast<std::size_t>(output.type.shape.elements()) * dtype_bytes(output.type.dtype);
      }
    }
    for (const runtime::WeightPiece& piece : program->pieces) {
      sum.weight_bytes += pieces.insert(piece.name).second ? piece.bytes : 0;
    }
  }
  return sum;
}

StagedExecutable::StagedExecutable(
    const StagedPrograms& programs,
    const std::vector<std::shared_ptr<const runtime::PackedWeights>>& weights,
    const runtime::Backend& backend, Context& context, const runtime::BackendOptions& options)
    : programs_(programs) {
  const auto load = [&](const CompiledProgram& program) {
    return Part{.program = &program,
                .executable = backend.load(program, weights, context, options)};
  };
  if (programs_.request) {
    request_ = load(*programs_.request);
  }
  if (programs_.schedule) {
    schedule_ = load(*programs_.schedule);
  }
  step_ = load(programs_.step);
  collect_inputs();
}

// The inputs that no earlier program gives, with the types of the joined graph.
void StagedExecutable::collect_inputs() {
  for (const CompiledProgram* program : programs_.all()) {
    for (const Port& port : program->inputs) {
      if (gives(programs_.request, port.name) || gives(programs_.schedule, port.name) ||
          bound_.contains(port.name)) {
        continue;
      }
      Port joined = port;
      const bool chunked = programs_.schedule && program == &*programs_.schedule;
      if (chunked && port.binding == Binding::Schedule) {
        joined.type.shape = without_leading(port.type.shape);
      }
      bound_.emplace(port.name, port.binding);
      inputs_.push_back(std::move(joined));
    }
  }
}

NamedTensors StagedExecutable::Part::run(const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> results = executable->run(inputs);
  ++runs;
  require(results.size() == program->outputs.size(),
          "an executable with another number of outputs");
  NamedTensors named;
  for (std::size_t i = 0; i < results.size(); ++i) {
    named.emplace(program->outputs[i].name, std::move(results[i]));
  }
  return named;
}

StagedExecutable::Request StagedExecutable::begin(const NamedTensors& request,
                                                  const NamedTensors& schedule) {
  Request r;
  for (const Port& port : inputs_) {
    if (port.binding == Binding::Request) {
      r.values_.emplace(port.name, converted(port.name, port.type, named(request, port.name)));
    } else if (port.binding == Binding::Schedule) {
      const HostTensor& given = named(schedule, port.name);
      const std::int64_t steps = given.shape().rank() == 0 ? 0 : given.shape()[0];
      check(steps > 0 && (r.steps_ == 0 || r.steps_ == steps), ErrorCode::InvalidArgument,
            "input '{}' must have one entry for each of {} timesteps, got {}", port.name, r.steps_,
            given.shape().str());
      r.steps_ = steps;
      const graph::Type type{port.type.dtype, with_leading(steps, port.type.shape)};
      r.schedule_.emplace(port.name, converted(port.name, type, given));
    }
  }
  if (request_) {
    std::vector<HostTensor> ordered;
    for (const Port& port : request_->program->inputs) {
      ordered.push_back(named(r.values_, port.name));
    }
    r.values_.merge(request_->run(ordered));
  }
  return r;
}

void StagedExecutable::run_chunk(Request& request, std::int64_t begin) {
  std::vector<HostTensor> ordered;
  for (const Port& port : schedule_->program->inputs) {
    const auto given = request.schedule_.find(port.name);
    ordered.push_back(given == request.schedule_.end()
                          ? named(request.values_, port.name)
                          : padded_entries(given->second, begin, programs_.capacity));
  }
  request.chunk_ = schedule_->run(ordered);
  request.begin_ = begin;
}

NamedTensors StagedExecutable::step(Request& request, std::int64_t index,
                                    const NamedTensors& inputs) {
  require(request.steps_ == 0 || (index >= 0 && index < request.steps_),
          "a step beyond the schedule");
  if (schedule_) {
    const std::int64_t begin = index / programs_.capacity * programs_.capacity;
    if (begin != request.begin_) {
      run_chunk(request, begin);
    }
  }
  std::vector<HostTensor> ordered;
  for (const Port& port : step_.program->inputs) {
    if (const auto value = request.values_.find(port.name); value != request.values_.end()) {
      ordered.push_back(value->second);
    } else if (const auto late = request.chunk_.find(port.name); late != request.chunk_.end()) {
      ordered.push_back(entry(late->second, index - request.begin_));
    } else if (const auto own = request.schedule_.find(port.name); own != request.schedule_.end()) {
      ordered.push_back(entry(own->second, index));
    } else {
      ordered.push_back(converted(port.name, port.type, named(inputs, port.name)));
    }
  }
  return step_.run(ordered);
}

std::vector<StagedExecutable::ProgramProfile> StagedExecutable::profile() const {
  std::vector<ProgramProfile> all;
  if (request_) {
    all.push_back({"request", request_->runs, request_->executable->profile()});
  }
  if (schedule_) {
    all.push_back({"schedule", schedule_->runs, schedule_->executable->profile()});
  }
  all.push_back({"step", step_.runs, step_.executable->profile()});
  return all;
}

NamedTensors StagedExecutable::run(const NamedTensors& inputs) {
  NamedTensors request;
  NamedTensors schedule;
  NamedTensors step_inputs;
  for (const auto& [name, tensor] : inputs) {
    const auto bound = bound_.find(name);
    check(bound != bound_.end(), ErrorCode::InvalidArgument, "program '{}' has no input '{}'",
          programs_.step.name, name);
    switch (bound->second) {
      case Binding::Request:
        request.emplace(name, tensor);
        break;
      case Binding::Schedule:
        schedule.emplace(name, tensor.reshaped(with_leading(1, tensor.shape())));
        break;
      case Binding::Step:
        step_inputs.emplace(name, tensor);
        break;
    }
  }
  Request r = begin(request, schedule);
  return step(r, 0, step_inputs);
}

}  // namespace difflet::compile
