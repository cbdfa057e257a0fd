#include "difflet/backends/reference/reference.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "difflet/backends/reference/evaluator.h"
#include "difflet/base/error.h"
#include "difflet/runtime/checks.h"

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

// Throws InvalidArgument for an option of another backend.
void check_options(const runtime::BackendOptions& options) {
  check(options.cpu_level.empty(), ErrorCode::InvalidArgument,
        "the reference backend has no instruction levels; leave out '{}'", options.cpu_level);
}

std::shared_ptr<const graph::Graph> read_program(const runtime::CompiledProgram& program) {
  auto graph = std::make_shared<const graph::Graph>(runtime::read_code(program));
  runtime::check_pieces(program, pieces_of(*graph));
  return graph;
}

runtime::CompiledProgram compile_graph(const graph::Graph& graph) {
  const auto prepared = prepare(graph);
  return {.name = prepared->name(),
          .mesh = prepared->mesh(),
          .inputs = runtime::input_ports(*prepared),
          .outputs = runtime::output_ports(*prepared),
          .pieces = pieces_of(*prepared),
          .code = graph::print(*prepared)};
}

void pack_rank(const runtime::CompiledProgram& program, std::int64_t rank,
               const runtime::WeightSource& weights, runtime::PieceSink& sink) {
  check(rank >= 0 && rank < program.mesh.ranks(), ErrorCode::InvalidArgument,
        "program '{}' has {} ranks, there is no rank {}", program.name, program.mesh.ranks(), rank);
  const auto graph = read_program(program);
  for (std::size_t i = 0; i < program.pieces.size(); ++i) {
    const std::span<std::byte> out = sink.begin(program.pieces[i]);
    if (out.empty()) {
      continue;
    }
    require(out.size() == program.pieces[i].bytes, "a sink with memory of another size");
    const graph::ParamDecl& decl = graph->params()[i];
    const HostTensor shard = runtime::load_param(decl, weights, program.mesh, rank);
    std::ranges::fill(std::ranges::copy(shard.bytes(), out.begin()).out, out.end(), std::byte{0});
    sink.end(program.pieces[i]);
    weights.done(decl);
  }
}

}  // namespace

std::map<std::string, std::string> ReferenceBackend::toolchain(
    const runtime::BackendOptions& options) const {
  check_options(options);
  return {{"program_format", "1"}};
}

runtime::CompiledProgram ReferenceBackend::compile(const graph::Graph& graph, Context& /*context*/,
                                                   const runtime::BackendOptions& options) const {
  check_options(options);
  return compile_graph(graph);
}

void ReferenceBackend::pack(const runtime::CompiledProgram& program, std::int64_t rank,
                            const runtime::WeightSource& weights, runtime::PieceSink& sink,
                            Context& /*context*/, const runtime::BackendOptions& options) const {
  check_options(options);
  pack_rank(program, rank, weights, sink);
}

std::unique_ptr<runtime::Executable> ReferenceBackend::load(
    const runtime::CompiledProgram& program,
    std::vector<std::shared_ptr<const runtime::PackedWeights>> weights, Context& /*context*/,
    const runtime::BackendOptions& options) const {
  check_options(options);
  check(program.mesh.ranks() == 1, ErrorCode::Unsupported,
        "the reference backend loads programs of one rank; this one has {}", program.mesh.ranks());
  const auto graph = read_program(program);
  runtime::check_weights(program, weights);
  const runtime::MemoryReport memory = planned_memory(*graph);
  runtime::check_limit(program, memory, options);
  return std::make_unique<ReferenceExecutable>(load_rank(graph, weights[0], 0), memory);
}

runtime::MemoryReport ReferenceBackend::plan(const runtime::CompiledProgram& program,
                                             Context& /*context*/,
                                             const runtime::BackendOptions& options) const {
  check_options(options);
  return planned_memory(*read_program(program));
}

std::vector<std::vector<HostTensor>> run_ranks(
    const runtime::CompiledProgram& program,
    std::span<const std::shared_ptr<const runtime::PackedWeights>> weights,
    const std::vector<std::vector<HostTensor>>& inputs) {
  const auto graph = read_program(program);
  runtime::check_weights(program, weights);
  const auto ranks = static_cast<std::size_t>(program.mesh.ranks());
  check(inputs.size() == ranks, ErrorCode::InvalidArgument, "{} ranks, but inputs for {}", ranks,
        inputs.size());
  Communicator communicator(program.mesh);
  FirstError error;
  std::vector<std::vector<HostTensor>> outputs(ranks);
  std::vector<std::jthread> threads;
  const auto run = [&](std::size_t rank) noexcept {
    try {
      const RankProgram mine = load_rank(graph, weights[rank], static_cast<std::int64_t>(rank));
      outputs[rank] = evaluate(mine, communicator, inputs[rank]);
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
                                               const std::vector<std::vector<HostTensor>>& inputs) {
  const runtime::CompiledProgram program = compile_graph(graph);
  const runtime::CompiledProgram* const programs[] = {&program};
  std::vector<std::shared_ptr<const runtime::PackedWeights>> packed;
  for (std::int64_t rank = 0; rank < program.mesh.ranks(); ++rank) {
    auto memory = std::make_shared<runtime::MemoryWeights>(programs);
    pack_rank(program, rank, weights, *memory);
    packed.push_back(std::move(memory));
  }
  return run_ranks(program, packed, inputs);
}

std::vector<std::vector<HostTensor>> run_ranks(const graph::Graph& graph,
                                               const runtime::WeightSource& weights,
                                               const std::vector<HostTensor>& inputs) {
  return run_ranks(
      graph, weights,
      std::vector<std::vector<HostTensor>>(static_cast<std::size_t>(graph.mesh().ranks()), inputs));
}

}  // namespace difflet::reference
