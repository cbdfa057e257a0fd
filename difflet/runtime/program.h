// A program compiled ahead of time for one backend, and the weights that it reads, packed as it wants
// them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/huge_buffer.h"
#include "difflet/graph/graph.h"
#include "difflet/spmd/mesh.h"

namespace difflet::runtime {

// A part of one rank's weights as a program wants it in memory. Pieces of one name made from the same
// checkpoint for the same rank of the same mesh hold the same bytes, whatever program asks: the name is
// "<parameter>|<layout>", and the layout names everything that shapes the bytes.
struct WeightPiece {
  std::string name;
  std::size_t bytes = 0;  // a multiple of kPieceAlignment
  bool operator==(const WeightPiece&) const = default;
};
inline constexpr std::size_t kPieceAlignment = 64;

// `bytes` rounded up to kPieceAlignment.
constexpr std::size_t piece_bytes(std::size_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

// An input or output by name, and of an input when its value is known.
struct Port {
  std::string name;
  graph::Type type;
  graph::Binding binding = graph::Binding::Step;
  bool operator==(const Port&) const = default;
};
std::vector<Port> input_ports(const graph::Graph& graph);   // in the order of Graph::inputs()
std::vector<Port> output_ports(const graph::Graph& graph);  // in the order of Graph::outputs()

// What a backend makes of a graph ahead of time.
struct CompiledProgram {
  std::string name;  // of the graph
  spmd::Mesh mesh;
  std::vector<Port> inputs, outputs;
  std::vector<WeightPiece> pieces;  // of each rank, in the order of packing; no name twice
  std::string code;  // the backend's own; cpu and reference: the prepared graph in text form
  // For people: the composites that compile() expanded, each with the backend's reason. Not stored.
  std::vector<std::string> notes;

  std::size_t weight_bytes() const noexcept;  // of all pieces
};

// Packed weights of one rank. Nothing writes to them; they outlive the executables that they are given.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
  // The piece's bytes, aligned to kPieceAlignment. Throws DataLoss naming the piece when it is absent
  // or of another size.
  virtual std::span<const std::byte> piece(const WeightPiece& piece) const = 0;
};

// Takes pieces while they are packed, one after another.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // Memory of piece.bytes, aligned to kPieceAlignment, of which every byte will be written; empty when
  // the piece is not wanted.
  virtual std::span<std::byte> begin(const WeightPiece& piece) = 0;
  // The piece is complete. Does not follow a begin() that was not wanted or whose packing threw.
  virtual void end(const WeightPiece& piece) = 0;
};

// All pieces of some programs in one block of memory on huge pages: first a sink, then weights.
class MemoryWeights final : public PackedWeights, public PieceSink {
 public:
  // Room for the union of the programs' pieces. Throws ResourceExhausted; DataLoss when two pieces of
  // one name differ in size.
  explicit MemoryWeights(std::span<const CompiledProgram* const> programs);

  std::size_t bytes() const noexcept { return bytes_; }
  std::span<const std::byte> piece(const WeightPiece& piece) const override;
  // Wants each of its pieces once.
  std::span<std::byte> begin(const WeightPiece& piece) override;
  void end(const WeightPiece& piece) override;

 private:
  struct Place {
    std::size_t offset = 0, bytes = 0;
    bool packed = false;
  };
  std::map<std::string, Place, std::less<>> places_;
  std::size_t bytes_ = 0;
  HugeBuffer memory_;
};

}  // namespace difflet::runtime
