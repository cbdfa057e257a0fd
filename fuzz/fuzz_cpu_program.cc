// Hostile programs of the cpu backend: text that parses is planned or refused, and what is planned and
// small runs on weights of zeros without touching memory that is not its own.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/graph/graph.h"

namespace {

using namespace difflet;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr std::size_t kLimit = 1U << 24U;  // bytes of all tensors

class Zeros final : public runtime::PackedWeights {
 public:
  std::span<const std::byte> piece(const runtime::WeightPiece& piece) const override {
    check(piece.bytes <= kLimit, ErrorCode::DataLoss, "piece '{}' is missing", piece.name);
    return memory_.bytes().first(piece.bytes);
  }

 private:
  HostTensor memory_{DType::U8, Shape{static_cast<std::int64_t>(kLimit)}};
};

bool small(const graph::Graph& graph) {
  std::size_t elements = 0;
  for (const graph::Node& node : graph.nodes()) {
    elements += static_cast<std::size_t>(node.type.shape.elements());
    if (elements > 1U << 16U) {
      return false;
    }
  }
  return true;
}

// The text as it is, not prepared: as load() meets it in a damaged file.
void plan_and_run(const std::string& text) {
  static Log log(LogLevel::Off);
  static ThreadPool threads(1);
  static const auto weights = std::make_shared<const Zeros>();
  Context context{log, threads};
  const graph::Graph graph = graph::parse(text);
  const cpu::PlanOptions plan{.level = cpu::detect_level(), .threads = 1};
  const runtime::CompiledProgram program{.name = graph.name(),
                                         .mesh = graph.mesh(),
                                         .inputs = runtime::input_ports(graph),
                                         .outputs = runtime::output_ports(graph),
                                         .pieces = cpu::Planner(graph, plan).build().pieces(),
                                         .code = text};
  const auto executable = cpu::CpuBackend().load(program, {weights}, context,
                                                 {.cpu_level = "", .memory_limit = kLimit});
  if (small(graph)) {
    std::vector<HostTensor> inputs;
    inputs.reserve(program.inputs.size());
    for (const runtime::Port& port : program.inputs) {
      inputs.emplace_back(port.type.dtype, port.type.shape);
    }
    fuzz::law(executable->run(inputs).size() == graph.outputs().size(), "as many outputs as named");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept(
      [&] { plan_and_run({reinterpret_cast<const char*>(data), size}); });
}
