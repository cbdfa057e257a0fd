// Loading (planning, packing weights) and running.
#include <algorithm>
#include <chrono>
#include <map>

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/conv.h"
#include "difflet/backends/cpu/huge_buffer.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/weights.h"
#include "difflet/base/error.h"
#include "difflet/runtime/checks.h"

namespace difflet::cpu {
namespace {

class CpuExecutable : public runtime::Executable {
 public:
  CpuExecutable(graph::Graph graph, Level level, ThreadPool& threads)
      : graph_(std::move(graph)), threads_(&threads) {
    plan_ = Planner(graph_, {.level = level, .threads = threads.size()}).build();
  }

  void load(const runtime::WeightSource& source) {
    weights_ = HugeBuffer(plan_.weight_bytes);
    load_weights(plan_, graph_, source, weights_.data(), *threads_);
    arena_ = HugeBuffer(plan_.arena_bytes);
    scratch_ = HugeBuffer(total_scratch());
    bind();
  }

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) override;
  runtime::MemoryReport memory() const override {
    return {.weight_bytes = plan_.weight_bytes,
            .arena_bytes = plan_.arena_bytes,
            .scratch_bytes = total_scratch()};
  }
  std::vector<std::string> profile() const override;
  std::vector<std::string> explain() const override {
    std::vector<std::string> lines;
    lines.reserve(plan_.steps.size());
    for (const Step& s : plan_.steps) {
      lines.push_back(s.what);
    }
    std::vector<std::string> notes = plan_.notes;
    std::sort(notes.begin(), notes.end());
    notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
    lines.insert(lines.end(), notes.begin(), notes.end());
    return lines;
  }

 private:
  std::size_t total_scratch() const {
    return plan_.scratch_bytes * static_cast<std::size_t>(threads_->size());
  }
  void bind();

  graph::Graph graph_;
  ThreadPool* threads_;
  Plan plan_;
  HugeBuffer weights_, arena_, scratch_;
  std::vector<std::byte*> base_;  // [buffer]
  std::vector<std::byte*> thread_scratch_;
  std::vector<double> step_seconds_;  // of the last run
};

std::vector<std::string> CpuExecutable::profile() const {
  struct Total {
    double seconds = 0, flops = 0;
    int steps = 0;
  };
  std::map<std::string, Total> by_kernel;
  double all = 0;
  for (std::size_t i = 0; i < step_seconds_.size(); ++i) {
    const Step& step = plan_.steps[i];
    Total& t = by_kernel[step.what.substr(0, step.what.find(' '))];
    t.seconds += step_seconds_[i];
    t.flops += step.flops;
    t.steps += 1;
    all += step_seconds_[i];
  }
  std::vector<std::pair<std::string, Total>> rows(by_kernel.begin(), by_kernel.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const auto& [name, t] : rows) {
    lines.push_back(fmt::format("{:<36} {:5} steps {:10.3f} ms {:5.1f} % {:8.1f} GFLOP/s", name,
                                t.steps, t.seconds * 1e3, 100 * t.seconds / all,
                                t.flops / t.seconds / 1e9));
  }
  return lines;
}

// Addresses that do not change between runs.
void CpuExecutable::bind() {
  base_.assign(plan_.buffers.size(), nullptr);
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& b = plan_.buffers[i];
    if (b.kind == BufferKind::Arena) {
      base_[i] = arena_.data() + plan_.arena_offset[i];
    } else if (b.kind == BufferKind::Weight) {
      base_[i] = weights_.data() + b.index;
    } else if (b.kind == BufferKind::Constant) {
      // Steps only read constants.
      base_[i] = const_cast<std::byte*>(plan_.constants[b.index].bytes().data());
    }
  }
  thread_scratch_.clear();
  for (int t = 0; t < threads_->size(); ++t) {
    thread_scratch_.push_back(scratch_.data() + plan_.scratch_bytes * static_cast<std::size_t>(t));
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
  step_seconds_.assign(plan_.steps.size(), 0);
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    plan_.steps[i].run(run);
    step_seconds_[i] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return outputs;
}

Level choose_level(const std::string& name) {
  const Level best = detect_level();
  if (name.empty()) {
    return best;
  }
  const auto level = parse_level(name);
  check(level.has_value(), ErrorCode::InvalidArgument,
        "unknown cpu level '{}': scalar, avx2, avx512 or avx512bf16", name);
  check(*level <= best, ErrorCode::Unsupported, "cpu level {} is not available: this chip has {}",
        name, level_name(best));
  return *level;
}

}  // namespace

std::string CpuBackend::describe(const runtime::LoadOptions& options) const {
  return fmt::format("{}: {}", name(), level_name(choose_level(options.cpu_level)));
}

std::vector<std::string> CpuBackend::explain(const graph::Graph& graph, Context& context,
                                             const runtime::LoadOptions& options) const {
  return CpuExecutable(prepare(graph), choose_level(options.cpu_level), context.threads).explain();
}

runtime::MemoryReport CpuBackend::plan(const graph::Graph& graph, Context& context,
                                       const runtime::LoadOptions& options) const {
  return CpuExecutable(prepare(graph), choose_level(options.cpu_level), context.threads).memory();
}

std::unique_ptr<runtime::Executable> CpuBackend::load(const graph::Graph& graph,
                                                      const runtime::WeightSource& weights,
                                                      Context& context,
                                                      const runtime::LoadOptions& options) const {
  check(graph.mesh().ranks() == 1, ErrorCode::Unsupported,
        "the cpu backend runs one rank, the program was traced for {}", graph.mesh().ranks());
  auto executable = std::make_unique<CpuExecutable>(prepare(graph), choose_level(options.cpu_level),
                                                    context.threads);
  const std::size_t need = executable->memory().total();
  check(options.memory_limit == 0 || need <= options.memory_limit, ErrorCode::ResourceExhausted,
        "{} needs {} MB (weights, activations and working memory), the limit is {} MB",
        graph.name(), need >> 20U, options.memory_limit >> 20U);
  executable->load(weights);
  return executable;
}

}  // namespace difflet::cpu
