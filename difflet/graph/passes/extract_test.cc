#include "difflet/graph/passes/extract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kTwoBlocks = R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = param "blocks.0.w" f32[2] : f32[2]
      %2 = unary(%0) {kind=exp} : f32[2]
      %3 = binary(%2, %1) : f32[2] @ "blocks.0.attn.1"
      %4 = unary(%3) {kind=sin} : f32[2] @ "blocks.0"
      %5 = binary(%4, %2) : f32[2] @ "blocks.1"
      %6 = binary(%5, %0) : f32[2]
      return "y"=%6, "early"=%4
      )";

TEST(Blocks, AreTheOutermostNumberedPaths) {
  EXPECT_THAT(blocks(parse(wrap(kTwoBlocks))), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(blocks(parse(wrap(R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = unary(%0) : f32[2] @ "stage.x2.out"
      return "y"=%1
      )"))),
              IsEmpty());
}

TEST(Segments, TakeAndGiveValuesByName) {
  const std::vector<Segment> parts = segments(parse(wrap(kTwoBlocks)));
  ASSERT_EQ(parts.size(), 4U);
  const auto expect = [&](std::size_t i, std::string_view name, std::string_view body) {
    EXPECT_EQ(parts[i].name, name);
    EXPECT_EQ(print(parts[i].graph), wrap(indent(body), 1, fmt::format("t/{}", name)));
  };
  expect(0, "before blocks.0", R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = unary(%0) {kind=exp} : f32[2]
      return "exp.0"=%1
      )");
  expect(1, "blocks.0", R"(
      %0 = input() {name="exp.0", shape=[2]} : f32[2]
      %1 = param "blocks.0.w" f32[2] : f32[2]
      %2 = binary(%0, %1) : f32[2] @ "blocks.0.attn.1"
      %3 = unary(%2) {kind=sin} : f32[2] @ "blocks.0"
      return "blocks.0.sin.0"=%3, "early"=%3
      )");
  expect(2, "blocks.1", R"(
      %0 = input() {name="blocks.0.sin.0", shape=[2]} : f32[2]
      %1 = input() {name="exp.0", shape=[2]} : f32[2]
      %2 = binary(%0, %1) : f32[2] @ "blocks.1"
      return "blocks.1.add.0"=%2
      )");
  expect(3, "after blocks.1", R"(
      %0 = input() {name="blocks.1.add.0", shape=[2]} : f32[2]
      %1 = input() {name="x", shape=[2]} : f32[2]
      %2 = binary(%0, %1) : f32[2]
      return "y"=%2
      )");
}

TEST(Segments, NameWhatIsEnteredAgain) {
  const std::vector<Segment> parts = segments(parse(wrap(R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      %1 = unary(%0) {kind=exp} : f32[2] @ "b.0"
      %2 = unary(%1) {kind=sin} : f32[2] @ "b.1"
      %3 = unary(%2) {kind=cos} : f32[2] @ "b.0"
      return "b.0.exp.0"=%3
      )")));
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].name, "b.0 (2)");
  EXPECT_EQ(parts[0].graph.outputs()[0].name, "b.0.exp.1") << "the graph's own names are taken";
}

TEST(Segments, OfAGraphWithoutBlocksAreOne) {
  const std::vector<Segment> parts = segments(parse(wrap(R"(
      %0 = input() {name="x", shape=[2]} : f32[2]
      return "y"=%0
      )")));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].name, "all");
  EXPECT_EQ(parts[0].graph.outputs().size(), 1U);
}

}  // namespace
}  // namespace difflet::graph::passes
