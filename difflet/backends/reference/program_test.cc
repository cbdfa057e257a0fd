// Programs ahead of time, of one rank and of many.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/reference/testing.h"
#include "difflet/base/testing.h"

namespace difflet::reference {
namespace {

using runtime::CompiledProgram;
using runtime::MemoryWeights;
using runtime::PackedWeights;
using runtime::WeightPiece;
using ::testing::ElementsAre;

// y = all_reduce(x . w^T), K split over two ranks: each rank has half of the sum.
constexpr std::string_view kTwoRanks = R"(graph "split" mesh(dp=1, cfg=1, cp=1, tp=2) {
  %0 = input() {name="x", shape=[1, 2]} : f32[1, 2]
  %1 = param "w" f32[3, 4] split(dim=1, axis=tp) : f32[3, 2]
  %2 = linear(%0, %1) : f32[1, 3]
  %3 = all_reduce(%2) : f32[1, 3]
  return "y"=%3
})";
constexpr std::string_view kOneRank = R"(graph "one" mesh(dp=1, cfg=1, cp=1, tp=1) {
  %0 = input() {name="x", shape=[1, 4]} : f32[1, 4]
  %1 = param "w" bf16[3, 4] : bf16[3, 4]
  %2 = convert(%1) {dtype=f32} : f32[3, 4]
  %3 = linear(%0, %2) : f32[1, 3]
  return "y"=%3
})";

OneWeight counted() { return OneWeight(floats({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})); }

class Programs : public ::testing::Test {
 protected:
  CompiledProgram compile(std::string_view text) {
    return backend_.compile(graph::parse(text), context_, {});
  }
  std::shared_ptr<MemoryWeights> packed(const CompiledProgram& program, std::int64_t rank) {
    const CompiledProgram* const programs[] = {&program};
    auto memory = std::make_shared<MemoryWeights>(programs);
    backend_.pack(program, rank, counted(), *memory, context_, {});
    return memory;
  }

  ReferenceBackend backend_;
  Log log_{LogLevel::Off};
  ThreadPool threads_{1};
  Context context_{log_, threads_};
};

TEST_F(Programs, ListOnePieceAParameterInTheDtypeOfTheProgram) {
  const CompiledProgram one = compile(kOneRank);
  EXPECT_THAT(one.pieces, ElementsAre(WeightPiece{"w|plain.bf16", 64}));
  EXPECT_THAT(one.inputs, ElementsAre(runtime::Port{"x", {DType::F32, Shape{1, 4}}}));
  EXPECT_THAT(one.outputs, ElementsAre(runtime::Port{"y", {DType::F32, Shape{1, 3}}}));
  EXPECT_EQ(backend_.plan(one, context_, {}).weight_bytes, 64U);
  EXPECT_EQ(backend_.toolchain({}).count("program_format"), 1U);
  EXPECT_ERROR((void)backend_.toolchain({.cpu_level = "avx2"}), ErrorCode::InvalidArgument, "avx2");
}

TEST_F(Programs, PiecesHoldThePartOfTheRankAndZeros) {
  const CompiledProgram program = compile(kTwoRanks);
  EXPECT_EQ(program.mesh.ranks(), 2);
  for (const std::int64_t rank : {0, 1}) {
    const auto memory = packed(program, rank);
    const auto bytes = memory->piece(program.pieces[0]);
    std::vector<float> values(16);
    ASSERT_EQ(bytes.size(), values.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const auto r = static_cast<float>(2 * rank);
    EXPECT_THAT(values, ElementsAre(1 + r, 2 + r, 5 + r, 6 + r, 9 + r, 10 + r, 0, 0, 0, 0, 0, 0, 0,
                                    0, 0, 0));
  }
  EXPECT_ERROR((void)packed(program, 2), ErrorCode::InvalidArgument, "there is no rank 2");
}

TEST_F(Programs, OfManyRanksRunWithTheWeightsOfEach) {
  const CompiledProgram program = compile(kTwoRanks);
  const std::vector<std::shared_ptr<const PackedWeights>> weights{packed(program, 0),
                                                                  packed(program, 1)};
  const auto results =
      run_ranks(program, weights, {{floats({1, 2}, {1, 1})}, {floats({1, 2}, {10, 10})}});
  for (const auto& outputs : results) {
    EXPECT_THAT(outputs[0].to_floats(), ElementsAre(3 + 70, 11 + 150, 19 + 230));
  }
  EXPECT_ERROR((void)run_ranks(program, std::span(weights).first(1), {{}, {}}),
               ErrorCode::InvalidArgument, "2 ranks, but there are weights for 1");
  EXPECT_ERROR((void)run_ranks(program, weights, std::vector<std::vector<HostTensor>>{{}}),
               ErrorCode::InvalidArgument, "inputs for 1");
  EXPECT_ERROR((void)backend_.load(program, weights, context_, {}), ErrorCode::Unsupported,
               "one rank");
}

TEST_F(Programs, OfOneRankKeepTheirWeightsAndRunAgain) {
  const CompiledProgram program = compile(kOneRank);
  auto weights = packed(program, 0);
  const std::weak_ptr<MemoryWeights> alive = weights;
  auto executable = backend_.load(program, {std::move(weights)}, context_, {});
  EXPECT_FALSE(alive.expired());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(executable->run({floats({1, 4}, {1, 0, 0, 1})})[0].to_floats(),
                ElementsAre(5, 13, 21));
  }
  executable.reset();
  EXPECT_TRUE(alive.expired());
}

TEST_F(Programs, ThatAreDamagedAreRefused) {
  const CompiledProgram good = compile(kOneRank);
  const auto weights = packed(good, 0);
  CompiledProgram text = good;
  text.code.resize(text.code.size() / 2);
  EXPECT_ERROR((void)backend_.load(text, {weights}, context_, {}), ErrorCode::DataLoss,
               "program 'one' is damaged: graph text, line");
  CompiledProgram pieces = good;
  pieces.pieces.clear();
  EXPECT_ERROR((void)backend_.load(pieces, {weights}, context_, {}), ErrorCode::DataLoss,
               "lists 0 weight pieces, its code reads 1");
  CompiledProgram mesh = good;
  mesh.mesh = spmd::Mesh(1, 1, 1, 2);
  EXPECT_ERROR((void)run_ranks(mesh, {}, std::vector<std::vector<HostTensor>>{}),
               ErrorCode::DataLoss, "another program");
  const CompiledProgram* const none[] = {&good};
  EXPECT_ERROR((void)backend_.load(good, {std::make_shared<MemoryWeights>(none)}, context_, {}),
               ErrorCode::DataLoss, "'w|plain.bf16' is missing");
}

}  // namespace
}  // namespace difflet::reference
