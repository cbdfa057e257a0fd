// A planned program with its weights and working memory, ready to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "difflet/backends/cpu/plan.h"
#include "difflet/base/huge_buffer.h"
#include "difflet/base/thread_pool.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::cpu {

class CpuExecutable final : public runtime::Executable {
 public:
  // `plan` is that of `graph`. Weights are read in place; throws DataLoss when a piece is missing.
  CpuExecutable(graph::Graph graph, Plan plan,
                std::shared_ptr<const runtime::PackedWeights> weights, ThreadPool& threads);

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) override;
  runtime::MemoryReport memory() const override;
  std::vector<std::string> explain() const override;
  std::vector<runtime::StepTime> profile() const override;

 private:
  void bind();
  void run_steps(const Run& run);

  graph::Graph graph_;
  Plan plan_;
  std::shared_ptr<const runtime::PackedWeights> weights_;
  ThreadPool* threads_;
  HugeBuffer arena_, scratch_;
  std::vector<std::byte*> base_;  // [buffer]
  std::vector<std::byte*> thread_scratch_;
  // Of the last run; [step].
  std::vector<double> step_start_s_, step_seconds_;
};

// What a plan takes on `threads` threads.
runtime::MemoryReport memory_of(const Plan& plan, int threads);
// One line a step, then the refusals.
std::vector<std::string> lines_of(const Plan& plan);

}  // namespace difflet::cpu
