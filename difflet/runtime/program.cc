#include "difflet/runtime/program.h"

#include <cstdint>
#include <variant>

#include "difflet/base/error.h"

namespace difflet::runtime {

std::vector<Port> input_ports(const graph::Graph& graph) {
  std::vector<Port> ports;
  for (const graph::NodeId id : graph.inputs()) {
    const graph::Node& node = graph.node(id);
    const auto& input = std::get<graph::Input>(node.op);
    ports.push_back({.name = input.name, .type = node.type, .binding = input.binding});
  }
  return ports;
}

std::vector<Port> output_ports(const graph::Graph& graph) {
  std::vector<Port> ports;
  ports.reserve(graph.outputs().size());
  for (const graph::Output& output : graph.outputs()) {
    ports.push_back({.name = output.name, .type = graph.node(output.node).type});
  }
  return ports;
}

std::size_t CompiledProgram::weight_bytes() const noexcept {
  std::size_t sum = 0;
  for (const WeightPiece& piece : pieces) {
    sum += piece.bytes;
  }
  return sum;
}

MemoryWeights::MemoryWeights(std::span<const CompiledProgram* const> programs) {
  for (const CompiledProgram* program : programs) {
    for (const WeightPiece& piece : program->pieces) {
      const auto [place, fresh] =
          places_.try_emplace(piece.name, Place{bytes_, piece.bytes, false});
      check(place->second.bytes == piece.bytes, ErrorCode::DataLoss,
            "weight piece '{}' has {} bytes in program '{}' and {} in another", piece.name,
            piece.bytes, program->name, place->second.bytes);
      if (fresh) {
        check(piece.bytes <= SIZE_MAX / 2 - bytes_, ErrorCode::ResourceExhausted,
              "cannot allocate {} bytes for weight piece '{}'", piece.bytes, piece.name);
        bytes_ += piece_bytes(piece.bytes);
      }
    }
  }
  memory_ = HugeBuffer(bytes_);
}

std::span<const std::byte> MemoryWeights::piece(const WeightPiece& piece) const {
  const auto found = places_.find(piece.name);
  check(found != places_.end() && found->second.packed, ErrorCode::DataLoss,
        "weight piece '{}' is missing", piece.name);
  check(found->second.bytes == piece.bytes, ErrorCode::DataLoss,
        "weight piece '{}' has {} bytes, not {}", piece.name, found->second.bytes, piece.bytes);
  return {memory_.data() + found->second.offset, piece.bytes};
}

std::span<std::byte> MemoryWeights::begin(const WeightPiece& piece) {
  const auto found = places_.find(piece.name);
  if (found == places_.end() || found->second.packed) {
    return {};
  }
  require(found->second.bytes == piece.bytes, "a weight piece of another size");
  return {memory_.data() + found->second.offset, piece.bytes};
}

void MemoryWeights::end(const WeightPiece& piece) {
  const auto found = places_.find(piece.name);
  require(found != places_.end(), "the end of a weight piece that did not begin");
  found->second.packed = true;
}

}  // namespace difflet::runtime
