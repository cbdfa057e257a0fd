#include "difflet/backends/reference/reference.h"

#include <optional>
#include <thread>

#include "difflet/backends/reference/evaluator.h"
#include "difflet/base/error.h"

namespace difflet::reference {
namespace {

class ReferenceExecutable final : public runtime::Executable {
 public:
  ReferenceExecutable(RankProgram program, const runtime::MemoryReport& memory)
      : program_(std::move(program)), communicator_(program_.graph->mesh()), memory_(memory) {}

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) override {
    return evaluate(program_, communicator_, inputs);
  }
  runtime::MemoryReport memory() const override { return memory_; }

 private:
  RankProgram program_;
  Communicator communicator_;
  runtime::MemoryReport memory_;
};

// The first exception of a rank thread; later ones are its consequences.
class FirstError {
 public:
  void set(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
    }
  }
  void rethrow() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

runtime::MemoryReport ReferenceBackend::plan(const graph::Graph& graph, Context& /*context*/,
                                             const runtime::LoadOptions& /*options*/) const {
  return planned_memory(*prepare(graph));
}

std::unique_ptr<runtime::Executable> ReferenceBackend::load(
    const graph::Graph& graph, const runtime::WeightSource& weights, Context& /*context*/,
    const runtime::LoadOptions& options) const {
  check(options.cpu_level.empty(), ErrorCode::InvalidArgument,
        "the reference backend has no instruction levels; leave out '{}'", options.cpu_level);
  check(graph.mesh().ranks() == 1, ErrorCode::Unsupported,
        "the reference backend loads programs of one rank; this one has {}", graph.mesh().ranks());
  const auto prepared = prepare(graph);
  const runtime::MemoryReport memory = planned_memory(*prepared);
  check(options.memory_limit == 0 || memory.total() <= options.memory_limit,
        ErrorCode::ResourceExhausted, "program '{}' takes {} bytes, more than the limit of {}",
        graph.name(), memory.total(), options.memory_limit);
  return std::make_unique<ReferenceExecutable>(load_rank(prepared, weights, 0), memory);
}

std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<std::vector<HostTensor>>& inputs) {
  const auto ranks = static_cast<std::size_t>(graph.mesh().ranks());
  check(inputs.size() == ranks, ErrorCode::InvalidArgument, "{} ranks, but inputs for {}", ranks,
        inputs.size());
  const auto prepared = prepare(graph);
  Communicator communicator(graph.mesh());
  FirstError error;
  std::vector<std::vector<HostTensor>> outputs(ranks);
  std::vector<std::jthread> threads;
  const auto run = [&](std::size_t rank) noexcept {
    try {
      const RankProgram program = load_rank(prepared, weights, static_cast<std::int64_t>(rank));
      outputs[rank] = evaluate(program, communicator, inputs[rank]);
      return;
    } catch (Error& e) {
      e.add_context(fmt::format("rank {}", rank));
      error.set(std::current_exception());
    } catch (...) {
      error.set(std::current_exception());
    }
    communicator.abort();
  };
  try {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back(run, rank);
    }
  } catch (...) {
    communicator.abort();
    throw;
  }
  threads.clear();
  error.rethrow();
  return outputs;
}

std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<HostTensor>& inputs) {
  return run_ranks(
      graph, weights,
      std::vector<std::vector<HostTensor>>(static_cast<std::size_t>(graph.mesh().ranks()), inputs));
}

}  // namespace difflet::reference
