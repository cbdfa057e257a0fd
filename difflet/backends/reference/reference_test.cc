#include "difflet/backends/reference/reference.h"

#include <cmath>

#include <gmock/gmock.h>

#include "difflet/backends/reference/testing.h"
#include "difflet/base/testing.h"

namespace difflet::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

TEST(Reference, MultipliesMatricesWithBroadcastBatch) {
  EXPECT_THAT(run(R"(%0 = input() {name="a", shape=[2, 1, 3]} : f32[2, 1, 3]
                     %1 = input() {name="b", shape=[3, 2]} : f32[3, 2]
                     %2 = matmul(%0, %1) : f32[2, 1, 2]
                     return "y"=%2)",
                  {floats({2, 1, 3}, {1, 2, 3, 4, 5, 6}), floats({3, 2}, {1, 0, 0, 1, 1, 1})}),
              ElementsAre(4, 5, 10, 11));
}

TEST(Reference, RoundsEachPrimitiveToItsDtype) {
  // 1 + 2^-9 is not a bf16: the sum of two steps rounds twice, back to 1.
  const HostTensor one = floats({1}, {1}).to(DType::BF16);
  const HostTensor tiny = floats({1}, {0.001953125F}).to(DType::BF16);
  EXPECT_THAT(run(R"(%0 = input() {name="a", dtype=bf16, shape=[1]} : bf16[1]
                     %1 = input() {name="b", dtype=bf16, shape=[1]} : bf16[1]
                     %2 = binary(%0, %1) : bf16[1]
                     %3 = binary(%2, %1) : bf16[1]
                     return "y"=%3)",
                  {one, tiny}),
              ElementsAre(1));
}

TEST(Reference, RoundsACompositeOnce) {
  const HostTensor x = floats({1, 4}, {1, 2, 3, 4}).to(DType::BF16);
  const auto y = run(R"(%0 = input() {name="x", dtype=bf16, shape=[1, 4]} : bf16[1, 4]
                        %1 = softmax(%0) : bf16[1, 4]
                        return "y"=%1)",
                     {x});
  const double sum = 1 + std::exp(-1.0) + std::exp(-2.0) + std::exp(-3.0);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], round_bf16(static_cast<float>(std::exp(static_cast<double>(i) - 3) / sum)));
  }
}

TEST(Reference, AttentionSeesTheKeysOfItsBoundsOnly) {
  // Two queries, three keys; the second query sees none.
  const auto y = run(R"(%0 = input() {name="q", shape=[1, 2, 1, 1]} : f32[1, 2, 1, 1]
                        %1 = input() {name="k", shape=[1, 3, 1, 1]} : f32[1, 3, 1, 1]
                        %2 = input() {name="v", shape=[1, 3, 1, 1]} : f32[1, 3, 1, 1]
                        %3 = input() {name="lo", dtype=i32, shape=[1, 2]} : i32[1, 2]
                        %4 = input() {name="hi", dtype=i32, shape=[1, 2]} : i32[1, 2]
                        %5 = attention(%0, %1, %2, %3, %4) {bounds=true} : f32[1, 2, 1, 1]
                        return "y"=%5)",
                     {floats({1, 2, 1, 1}, {0, 0}), floats({1, 3, 1, 1}, {5, 6, 7}),
                      floats({1, 3, 1, 1}, {1, 2, 4}), ints({1, 2}, {1, 2}), ints({1, 2}, {3, 2})});
  EXPECT_THAT(y, ElementsAre(3, 0));
}

TEST(Reference, CausalAttentionAlignsTheLastQueryWithTheLastKey) {
  const auto y = run(R"(%0 = input() {name="q", shape=[1, 2, 1, 1]} : f32[1, 2, 1, 1]
                        %1 = input() {name="k", shape=[1, 3, 1, 1]} : f32[1, 3, 1, 1]
                        %2 = attention(%0, %1, %1) {causal=true} : f32[1, 2, 1, 1]
                        return "y"=%2)",
                     {floats({1, 2, 1, 1}, {0, 0}), floats({1, 3, 1, 1}, {1, 3, 8})});
  EXPECT_THAT(y, Pointwise(FloatNear(1e-6F), {2.0F, 4.0F}));
}

TEST(Reference, QueryHeadsShareTheirKeyHead) {
  // Four query heads over two key heads: heads 0 and 1 read key head 0.
  const auto y = run(R"(%0 = input() {name="q", shape=[1, 1, 4, 1]} : f32[1, 1, 4, 1]
                        %1 = input() {name="k", shape=[1, 1, 2, 1]} : f32[1, 1, 2, 1]
                        %2 = attention(%0, %1, %1) : f32[1, 1, 4, 1]
                        return "y"=%2)",
                     {floats({1, 1, 4, 1}, {0, 1, 2, 3}), floats({1, 1, 2, 1}, {5, 9})});
  EXPECT_THAT(y, ElementsAre(5, 5, 9, 9));
}

TEST(Reference, RotatesBothPairings) {
  const std::vector<HostTensor> inputs{floats({1, 1, 1, 4}, {1, 2, 3, 4}), floats({1, 2}, {0, 1}),
                                       floats({1, 2}, {1, 0})};
  const auto body = [](std::string_view attributes) {
    return fmt::format(R"(%0 = input() {{name="x", shape=[1, 1, 1, 4]}} : f32[1, 1, 1, 4]
                          %1 = input() {{name="c", shape=[1, 2]}} : f32[1, 2]
                          %2 = input() {{name="s", shape=[1, 2]}} : f32[1, 2]
                          %3 = rope(%0, %1, %2) {} : f32[1, 1, 1, 4]
                          return "y"=%3)",
                       attributes);
  };
  EXPECT_THAT(run(body(""), inputs), ElementsAre(-2, 1, 3, 4));
  EXPECT_THAT(run(body("{pairs=half}"), inputs), ElementsAre(-3, 2, 1, 4));
}

TEST(Reference, ConvolvesChannelsLastInGroups) {
  // One 2x1 kernel for each of two groups of one channel; the bottom row is padded.
  const auto y = run(R"(%0 = input() {name="x", shape=[1, 2, 1, 2]} : f32[1, 2, 1, 2]
                        %1 = input() {name="w", shape=[2, 1, 2, 1]} : f32[2, 1, 2, 1]
                        %2 = input() {name="b", shape=[2]} : f32[2]
                        %3 = conv2d(%0, %1, %2) {pad_bottom=1, groups=2, bias=true} : f32[1, 2, 1, 2]
                        return "y"=%3)",
                     {floats({1, 2, 1, 2}, {1, 2, 3, 4}), floats({2, 1, 2, 1}, {1, 10, 2, 20}),
                      floats({2}, {100, 200})});
  EXPECT_THAT(y, ElementsAre(131, 284, 103, 208));
}

TEST(Reference, NamesTheScopeOfAFailingNode) {
  constexpr std::string_view kBody = R"(%0 = input() {name="t", shape=[2, 1]} : f32[2, 1]
      %1 = input() {name="i", dtype=i32, shape=[1]} : i32[1]
      %2 = gather(%0, %1) : f32[1, 1] @ "embed"
      return "y"=%2)";
  EXPECT_ERROR(run(kBody, {floats({2, 1}, {1, 2}), ints({1}, {2})}), ErrorCode::InvalidArgument,
               "rank 0: embed: gather: index 2 at element 0 is outside the table of 2 rows");
}

TEST(Reference, RefusesWeightsThatAreNotFinite) {
  const OneWeight weights(floats({2}, {1, INFINITY}));
  EXPECT_ERROR(run(R"(%0 = param "block.w" f32[2] : f32[2] return "y"=%0)", {}, weights),
               ErrorCode::DataLoss, "'block.w'");
}

TEST(Reference, KeepsToTheMemoryLimit) {
  const graph::Graph g = graph::parse(R"(graph "t" mesh(dp=1, cfg=1, cp=1, tp=1) {
    %0 = input() {name="x", shape=[4]} : f32[4]
    %1 = unary(%0) : f32[4]
    %2 = unary(%1) : f32[4]
    return "y"=%2
  })");
  Log log(LogLevel::Off);
  ThreadPool threads(1);
  Context context{log, threads};
  const ReferenceBackend backend;
  const std::size_t planned = backend.plan(g, context, {}).total();
  EXPECT_EQ(planned, 32U);  // two values live at a time
  const auto executable = backend.load(g, NoWeights{}, context, {.memory_limit = planned});
  EXPECT_EQ(executable->memory().total(), planned);
  EXPECT_THAT(executable->run({floats({4}, {1, 2, 3, 4})})[0].to_floats(), ElementsAre(1, 2, 3, 4));
  EXPECT_ERROR(backend.load(g, NoWeights{}, context, {.memory_limit = planned - 1}),
               ErrorCode::ResourceExhausted, "more than the limit of 31 B");
  EXPECT_ERROR(executable->run({ints({4}, {1, 2, 3, 4})}), ErrorCode::InvalidArgument,
               "input 'x' of program 't' must be f32[4], not i32[4]");
}

TEST(Collectives, ReduceOverTheirAxisOnly) {
  const auto results = run_all("dp=1, cfg=1, cp=2, tp=2", R"(%0 = rank_index() : i32[]
      %1 = rank_index() {mesh_axis=cp} : i32[]
      %2 = constant() {value=i32[](10)} : i32[]
      %3 = binary(%1, %2) {kind=mul} : i32[]
      %4 = binary(%0, %3) : i32[]
      %5 = all_reduce(%4) : i32[]
      return "y"=%5)",
                               {});
  EXPECT_THAT(results,
              ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(21), ElementsAre(21)));
}

TEST(Collectives, GatherScatterAndShiftInRankOrder) {
  const auto leaf = R"(%0 = rank_index() : i32[]
      %1 = iota() {dtype=i32, shape=[4]} : i32[4]
      %2 = constant() {value=i32[](10)} : i32[]
      %3 = binary(%0, %2) {kind=mul} : i32[]
      %4 = binary(%1, %3) : i32[4]
      )";
  const auto run_tail = [&](std::string_view tail) {
    return run_all("dp=1, cfg=1, cp=1, tp=2", fmt::format("{}{}\n return \"y\"=%9", leaf, tail),
                   {});
  };
  EXPECT_THAT(run_tail("%9 = all_gather(%4) {group=2} : i32[8]")[1],
              ElementsAre(0, 1, 2, 3, 10, 11, 12, 13));
  EXPECT_THAT(run_tail("%9 = reduce_scatter(%4) {group=2} : i32[2]")[1], ElementsAre(14, 16));
  EXPECT_THAT(run_tail("%9 = ring_shift(%4) {mesh_axis=tp} : i32[4]")[0],
              ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(run_tail(R"(%8 = reshape(%4) {shape=[2, 2]} : i32[2, 2]
      %9 = all_to_all(%8) {mesh_axis=tp, join_axis=1, group=2} : i32[1, 4])")[1],
              ElementsAre(2, 3, 12, 13));
}

TEST(Collectives, AFailingRankWakesTheOthers) {
  // Only rank 1 looks outside the table; rank 0 waits for it in the all-reduce.
  constexpr std::string_view kBody = R"(%0 = rank_index() : i32[]
      %1 = iota() {shape=[1]} : f32[1]
      %2 = gather(%1, %0) : f32[]
      %3 = all_reduce(%2) : f32[]
      return "y"=%3)";
  EXPECT_ERROR(run_all("dp=1, cfg=1, cp=1, tp=2", kBody, {}), ErrorCode::InvalidArgument,
               "rank 1: gather: index 1");
}

}  // namespace
}  // namespace difflet::reference
