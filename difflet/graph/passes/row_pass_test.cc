#include "difflet/graph/passes/row_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/graph/passes/testing.h"

namespace difflet::graph::passes {
namespace {

using ::testing::ElementsAre;

// Two convolutions with a norm between them, and a sum around the second.
constexpr std::string_view kBlock = R"(
      %0 = input() {name="z", shape=[1, 2, 16, 4]} : f32[1, 2, 16, 4]
      %1 = transpose(%0) {permutation=[0, 2, 3, 1]} : f32[1, 16, 4, 2]
      %2 = param "a" f32[2, 2, 3, 3] : f32[2, 2, 3, 3]
      %3 = conv2d(%1, %2) {pad_top=1, pad_bottom=1, pad_left=1, pad_right=1} : f32[1, 16, 4, 2]
      %4 = param "w" f32[2] : f32[2]
      %5 = group_norm(%3, %4, %4) : f32[1, 16, 4, 2]
      %6 = conv2d(%5, %2) {pad_top=1, pad_bottom=1, pad_left=1, pad_right=1} : f32[1, 16, 4, 2]
      %7 = binary(%3, %6) : f32[1, 16, 4, 2]
      return "y"=%7
      )";

TEST(RowBands, FindsRowsAndWhatReadsThem) {
  const Graph graph = parse(wrap(kBlock));
  const RowBands bands(graph);
  EXPECT_EQ(bands.rows(0), (PictureRows{2, 1, 16}));  // behind a transpose
  EXPECT_EQ(bands.rows(7), (PictureRows{1, 1, 16}));
  EXPECT_FALSE(bands.rows(2).has());
  EXPECT_EQ(bands.reads(6, 0, {4, 8}), (RowRange{3, 9}));
  EXPECT_EQ(bands.reads(6, 0, {0, 4}), (RowRange{-1, 5}));
  EXPECT_EQ(bands.clipped(5, {-1, 5}), (RowRange{0, 5}));
  EXPECT_EQ(bands.reads(7, 1, {4, 8}), (RowRange{4, 8}));
}

TEST(RowBands, ReadsHalfTheRowsOfADoublingAndAllKeys) {
  const Graph graph = parse(wrap(R"(
      %0 = input() {name="x", shape=[1, 6, 4, 2]} : f32[1, 6, 4, 2]
      %1 = param "a" f32[2, 2, 1, 1] : f32[2, 2, 1, 1]
      %2 = conv2d(%0, %1) : f32[1, 6, 4, 2]
      %3 = reshape(%2) {shape=[1, 24, 1, 2]} : f32[1, 24, 1, 2]
      %4 = attention(%3, %3, %3) : f32[1, 24, 1, 2]
      %5 = reshape(%4) {shape=[1, 6, 4, 2]} : f32[1, 6, 4, 2]
      %6 = upsample(%5) : f32[1, 12, 8, 2]
      return "y"=%6
      )"));
  const RowBands bands(graph);
  EXPECT_EQ(bands.rows(4), (PictureRows{1, 4, 6}));
  EXPECT_EQ(bands.reads(6, 0, {3, 8}), (RowRange{1, 4}));
  EXPECT_EQ(bands.reads(6, 0, {-1, 1}), (RowRange{-1, 1}));
  EXPECT_EQ(bands.reads(4, 0, {1, 3}), (RowRange{1, 3}));
  EXPECT_EQ(bands.reads(4, 1, {1, 3}), (RowRange{0, 6}));
  const auto whole = bands.needs_whole(6, {{0}, {}});
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].node, 2U);
  EXPECT_FALSE(whole[0].statistics);
  EXPECT_TRUE(bands.needs_whole(6, {{0, 2}, {}}).empty());
}

TEST(RowPass, StatisticsAreNeededOfEachNormThatComputesItsOwn) {
  const Graph graph = parse(wrap(kBlock));
  const RowBands bands(graph);
  const auto whole = bands.needs_whole(7, {{0}, {}});
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].node, 5U);
  EXPECT_TRUE(whole[0].statistics);
}

TEST(RowPass, EveryRowIsMadeOnce) {
  const Graph graph = parse(wrap(kBlock));
  const RowBands bands(graph);
  const RowPass pass(bands, {7, 0}, {{0}, {5}});
  for (const std::int64_t rows : {1, 3, 4, 7, 16}) {
    const auto ends = pass.schedule(rows);
    for (const NodeId node : {3U, 6U, 7U}) {
      EXPECT_EQ(ends.front()[node], 0);
      EXPECT_EQ(ends.back()[node], 16);
      for (std::size_t i = 1; i < ends.size(); ++i) {
        EXPECT_GE(ends[i][node], ends[i - 1][node]);
        // Two at a time, and never more than a band and what rounding to pairs adds.
        EXPECT_LE(ends[i][node] - ends[i - 1][node], rows + 2) << node << " in bands of " << rows;
        EXPECT_TRUE(ends[i][node] % 2 == 0);
      }
    }
    // The sum ends where the convolution does that it is fused with.
    for (const auto& end : ends) {
      EXPECT_EQ(end[6], end[7]);
    }
  }
}

TEST(RowPass, ABandTakesStatisticsAndRowsThatTheOneBeforeCarried) {
  const Graph graph = parse(wrap(kBlock));
  const RowBands bands(graph);
  const RowPass pass(bands, {7, 0}, {{0}, {5}});
  const auto ends = pass.schedule(4);
  // Before any row of the sum there are rows of the first convolution.
  EXPECT_THAT(ends[1], ElementsAre(3, 3, 0, 2, 0, 1, 0, 0));
  EXPECT_THAT(ends[2], ElementsAre(7, 7, 0, 6, 0, 5, 4, 4));
  EXPECT_THAT(ends[3], ElementsAre(11, 11, 0, 10, 0, 9, 8, 8));
  const Band band = pass.cut(ends[2], ends[3]);
  EXPECT_EQ(band.rows, (RowRange{4, 8}));
  EXPECT_THAT(pass.held_reads(ends[2], ends[3]), ElementsAre(5));
  // Rows 6 ... 9 of the first convolution are new, 3 ... 5 were carried, 7 ... 9 are for the next band.
  EXPECT_EQ(print(band.graph), wrap(indent(R"(
      %0 = input() {name="value.0", shape=[1, 2, 6, 4], binding=request} : f32[1, 2, 6, 4]
      %1 = transpose(%0) {permutation=[0, 2, 3, 1]} : f32[1, 6, 4, 2]
      %2 = param "a" f32[2, 2, 3, 3] : f32[2, 2, 3, 3]
      %3 = input() {name="carry.3", shape=[1, 3, 4, 2], binding=request} : f32[1, 3, 4, 2]
      %4 = conv2d(%1, %2) {pad_left=1, pad_right=1} : f32[1, 4, 4, 2]
      %5 = concat(%3, %4) {axis=1} : f32[1, 7, 4, 2]
      %6 = slice(%5) {axis=1, start=1, limit=5} : f32[1, 4, 4, 2]
      %7 = slice(%5) {axis=1, limit=6} : f32[1, 6, 4, 2]
      %8 = slice(%4) {axis=1, start=1, limit=4} : f32[1, 3, 4, 2]
      %9 = param "w" f32[2] : f32[2]
      %10 = input() {name="statistics.5", shape=[1, 1, 4], binding=request} : f32[1, 1, 4]
      %11 = group_norm(%7, %9, %9, %10) {statistics=true} : f32[1, 6, 4, 2]
      %12 = conv2d(%11, %2) {pad_left=1, pad_right=1} : f32[1, 4, 4, 2]
      %13 = binary(%6, %12) : f32[1, 4, 4, 2]
      return "carry.3"=%8, "band"=%13
      )"),
                                    1, "t/band"));
}

TEST(RowPass, BandsOfEqualSignatureAreEqualGraphs) {
  const Graph graph = parse(wrap(kBlock));
  const RowBands bands(graph);
  for (const std::int64_t groups : {0, 1}) {
    const RowPass pass(bands, {groups > 0 ? 3U : 7U, groups}, {{0}, {5}});
    for (const std::int64_t rows : {1, 2, 3, 5}) {
      std::map<std::string, std::string> texts;
      const auto ends = pass.schedule(rows);
      for (std::size_t i = 1; i < ends.size(); ++i) {
        const std::string text = print(pass.cut(ends[i - 1], ends[i]).graph);
        const auto [known, fresh] = texts.emplace(pass.signature(ends[i - 1], ends[i]), text);
        EXPECT_EQ(known->second, text) << "band " << i << " of " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace difflet::graph::passes
