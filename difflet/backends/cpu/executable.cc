#include "difflet/backends/cpu/executable.h"

#include <chrono>

#include "difflet/backends/cpu/conv.h"
#include "difflet/runtime/checks.h"

namespace difflet::cpu {

runtime::MemoryReport memory_of(const Plan& plan, int threads) {
  runtime::MemoryReport report{
      .weight_bytes = 0,
      .arena_bytes = plan.arena_bytes,
      .scratch_bytes = plan.scratch_bytes * static_cast<std::size_t>(threads)};
  for (const WeightJob& job : plan.weights) {
    report.weight_bytes += job.piece.bytes;
  }
  return report;
}

std::vector<std::string> lines_of(const Plan& plan) {
  std::vector<std::string> lines;
  lines.reserve(plan.steps.size());
  for (const Step& s : plan.steps) {
    lines.push_back(s.what);
  }
  return lines;
}

CpuExecutable::CpuExecutable(graph::Graph graph, Plan plan,
                             std::shared_ptr<const runtime::PackedWeights> weights,
                             ThreadPool& threads)
    : graph_(std::move(graph)),
      plan_(std::move(plan)),
      weights_(std::move(weights)),
      threads_(&threads),
      arena_(plan_.arena_bytes),
      scratch_(memory_of(plan_, threads.size()).scratch_bytes) {
  std::vector<ConvKernel*> convs;
  for (const WeightJob& job : plan_.weights) {
    if (job.conv != nullptr) {
      convs.push_back(job.conv.get());
    }
  }
  threads.run(static_cast<std::int64_t>(convs.size()), [&convs](std::int64_t task, int /*thread*/) {
    convs[static_cast<std::size_t>(task)]->generate();
  });
  bind();
}

runtime::MemoryReport CpuExecutable::memory() const { return memory_of(plan_, threads_->size()); }

std::vector<std::string> CpuExecutable::explain() const { return lines_of(plan_); }

std::vector<runtime::StepTime> CpuExecutable::profile() const {
  std::vector<runtime::StepTime> times;
  times.reserve(step_seconds_.size());
  for (std::size_t i = 0; i < step_seconds_.size(); ++i) {
    const Step& step = plan_.steps[i];
    times.push_back({.what = step.what,
                     .kernel = step.what.substr(0, step.what.find(' ')),
                     .start_s = step_start_s_[i],
                     .seconds = step_seconds_[i],
                     .flops = step.flops,
                     .bytes = step.bytes});
  }
  return times;
}

// Addresses that do not change between runs.
void CpuExecutable::bind() {
  base_.assign(plan_.buffers.size(), nullptr);
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& b = plan_.buffers[i];
    if (b.kind == BufferKind::Arena) {
      base_[i] = arena_.data() + plan_.arena_offset[i];
    } else if (b.kind == BufferKind::Constant) {
      // Steps only read constants.
      base_[i] = const_cast<std::byte*>(plan_.constants[b.index].bytes().data());
    }
  }
  for (const WeightJob& job : plan_.weights) {
    // Steps only read weights.
    base_[job.buffer] = const_cast<std::byte*>(weights_->piece(job.piece).data());
  }
  thread_scratch_.clear();
  for (int t = 0; t < threads_->size(); ++t) {
    thread_scratch_.push_back(scratch_.data() + plan_.scratch_bytes * static_cast<std::size_t>(t));
  }
}

void CpuExecutable::run_steps(const Run& run) {
  using Seconds = std::chrono::duration<double>;
  step_start_s_.assign(plan_.steps.size(), 0);
  step_seconds_.assign(plan_.steps.size(), 0);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    plan_.steps[i].run(run);
    step_start_s_[i] = Seconds(start - begin).count();
    step_seconds_[i] = Seconds(std::chrono::steady_clock::now() - start).count();
  }
}

std::vector<HostTensor> CpuExecutable::run(const std::vector<HostTensor>& inputs) {
  runtime::check_inputs(graph_, inputs);
  std::vector<HostTensor> outputs;
  outputs.reserve(plan_.outputs.size());
  for (const View& v : plan_.outputs) {
    outputs.emplace_back(v.dtype, v.shape);
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& b = plan_.buffers[i];
    if (b.kind == BufferKind::Input) {
      base_[i] = const_cast<std::byte*>(inputs[b.index].bytes().data());  // only read
    } else if (b.kind == BufferKind::Output) {
      base_[i] = outputs[b.index].mutable_bytes().data();
    }
  }
  const Run run{.base = base_.data(), .scratch = thread_scratch_.data(), .threads = threads_};
  run_steps(run);
  return outputs;
}

}  // namespace difflet::cpu
