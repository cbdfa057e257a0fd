#include "difflet/runtime/program.h"

#include <algorithm>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/runtime/checks.h"

namespace difflet::runtime {
namespace {

using ::testing::ElementsAre;

CompiledProgram program(const std::string& name, std::vector<WeightPiece> pieces) {
  return {.name = name, .mesh = {}, .inputs = {}, .outputs = {}, .pieces = std::move(pieces)};
}

void fill(MemoryWeights& weights, const WeightPiece& piece, std::uint8_t value) {
  std::ranges::fill(weights.begin(piece), std::byte{value});
  weights.end(piece);
}

TEST(PieceBytes, RoundUp) {
  EXPECT_EQ(piece_bytes(1), 64U);
  EXPECT_EQ(piece_bytes(64), 64U);
  EXPECT_EQ(piece_bytes(65), 128U);
}

TEST(Ports, AreNamedAndTypedInOrder) {
  graph::Graph g("g");
  const auto x = g.add(graph::Input{"x", DType::F32, Shape{2}}, {});
  g.add(graph::Input{"t", DType::BF16, Shape{}}, {});
  g.add_output("y", g.add(graph::Convert{DType::BF16}, {x}));
  EXPECT_THAT(input_ports(g),
              ElementsAre(Port{"x", {DType::F32, Shape{2}}}, Port{"t", {DType::BF16, Shape{}}}));
  EXPECT_THAT(output_ports(g), ElementsAre(Port{"y", {DType::BF16, Shape{2}}}));
}

TEST(MemoryWeights, HoldTheUnionOfThePiecesOfAllPrograms) {
  const WeightPiece a{"a|plain.f32", 64};
  const WeightPiece b{"b|plain.f32", 128};
  const WeightPiece c{"c|plain.f32", 192};
  const CompiledProgram first = program("first", {a, b});
  const CompiledProgram second = program("second", {b, c});
  EXPECT_EQ(first.weight_bytes(), 192U);
  const CompiledProgram* const programs[] = {&first, &second};
  MemoryWeights weights(programs);
  EXPECT_EQ(weights.bytes(), 384U);
  fill(weights, a, 1);
  fill(weights, b, 2);
  fill(weights, c, 3);
  std::uint8_t value = 1;
  for (const WeightPiece& piece : {a, b, c}) {
    const auto bytes = weights.piece(piece);
    EXPECT_EQ(bytes.size(), piece.bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % kPieceAlignment, 0U);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte x) { return x == std::byte{value}; }));
    ++value;
  }
}

TEST(MemoryWeights, WantEachPieceOnce) {
  const WeightPiece a{"a|plain.f32", 64};
  const CompiledProgram p = program("p", {a});
  const CompiledProgram* const programs[] = {&p};
  MemoryWeights weights(programs);
  EXPECT_TRUE(weights.begin({"other|plain.f32", 64}).empty());
  EXPECT_EQ(weights.begin(a).size(), 64U);
  weights.end(a);
  EXPECT_TRUE(weights.begin(a).empty());
}

TEST(MemoryWeights, NameThePieceThatIsMissingOrOfAnotherSize) {
  const WeightPiece a{"a|plain.f32", 64};
  const CompiledProgram p = program("p", {a});
  const CompiledProgram* const programs[] = {&p};
  MemoryWeights weights(programs);
  EXPECT_ERROR((void)weights.piece(a), ErrorCode::DataLoss, "'a|plain.f32' is missing");
  weights.begin(a);
  weights.end(a);
  EXPECT_ERROR((void)weights.piece({"a|plain.f32", 128}), ErrorCode::DataLoss,
               "'a|plain.f32' has 64 bytes, not 128");
  EXPECT_ERROR((void)weights.piece({"b|plain.f32", 64}), ErrorCode::DataLoss,
               "'b|plain.f32' is missing");
}

TEST(MemoryWeights, RefusePiecesThatDisagreeOrDoNotFitAnyMemory) {
  const CompiledProgram p = program("p", {{"a", 64}});
  const CompiledProgram q = program("q", {{"a", 128}});
  const CompiledProgram huge = program("huge", {{"a", SIZE_MAX / 64 * 64}, {"b", 64}});
  const CompiledProgram* const disagree[] = {&p, &q};
  const CompiledProgram* const overflow[] = {&huge};
  EXPECT_ERROR(MemoryWeights{disagree}, ErrorCode::DataLoss,
               "'a' has 128 bytes in program 'q' and 64 in another");
  EXPECT_ERROR(MemoryWeights{overflow}, ErrorCode::ResourceExhausted, "cannot allocate");
}

TEST(ReadCode, ComparesTheListedWithTheCode) {
  graph::Graph g("g");
  const auto x = g.add(graph::Input{"x", DType::F32, Shape{2}}, {});
  g.add_output("y", x);
  CompiledProgram p = program("g", {});
  p.inputs = input_ports(g);
  p.outputs = output_ports(g);
  p.code = graph::print(g);
  EXPECT_EQ(graph::print(read_code(p)), p.code);
  p.outputs[0].name = "z";
  EXPECT_ERROR(read_code(p), ErrorCode::DataLoss, "program 'g': its code is that of another");
  p.code.pop_back();
  p.code.pop_back();
  EXPECT_ERROR(read_code(p), ErrorCode::DataLoss, "program 'g' is damaged: graph text, line ");
}

TEST(CheckPieces, NamesTheFirstThatDiffers) {
  const CompiledProgram p = program("p", {{"a|plain.f32", 64}, {"b|plain.f32", 64}});
  EXPECT_NO_THROW(check_pieces(p, p.pieces));
  EXPECT_ERROR(check_pieces(p, std::vector<WeightPiece>{{"a|plain.f32", 64}, {"b|plain.bf16", 64}}),
               ErrorCode::DataLoss,
               "it reads 'b|plain.f32' of 64 bytes where this one reads 'b|plain.bf16' of 64");
  EXPECT_ERROR(check_pieces(p, std::vector<WeightPiece>{{"a|plain.f32", 64}}), ErrorCode::DataLoss,
               "lists 2 weight pieces, its code reads 1");
}

}  // namespace
}  // namespace difflet::runtime
