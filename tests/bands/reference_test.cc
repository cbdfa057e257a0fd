// On `reference`, f32, a decode in bands is the whole decode but for the order in which statistics are summed.
#include "difflet/backends/reference/reference.h"

#include "tests/bands/decode.h"
#include <gtest/gtest.h>

#include "difflet/backends/bands/bundle.h"
#include "difflet/tensor/compare.h"

namespace difflet::bands {
namespace {

using testing::decoder;
using testing::Decodes;
using testing::small_config;

const reference::ReferenceBackend kReference;

class Sizes : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Decoder, Sizes,
                         ::testing::Values(Shape{1, 4, 8, 6}, Shape{1, 4, 7, 5}, Shape{1, 4, 3, 9},
                                           Shape{1, 4, 13, 2}, Shape{2, 4, 5, 6}),
                         [](const auto& p) {
                           return fmt::format("{}x{}x{}", p.param[0], p.param[2], p.param[3]);
                         });

TEST_P(Sizes, SmallestLimitGivesTheSamePicture) {
  Decodes decodes(kReference);
  const graph::Graph graph = decoder(small_config(), GetParam(), DType::F32);
  const runtime::CompiledProgram whole = decodes.compile(graph, 0);
  const HostTensor expected = decodes.run(whole);
  const std::size_t limit = decodes.smallest_limit(graph);
  ASSERT_GT(limit, 0U);
  const runtime::CompiledProgram bands = decodes.compile(graph, limit);
  EXPECT_LE(decodes.bytes(bands), limit);
  EXPECT_TRUE(is_bundle(bands));
  const Difference difference = compare(decodes.run(bands), expected);
  EXPECT_LE(difference.relative, 1e-5) << difference.str();
  EXPECT_LE(difference.max_abs, 1e-4) << difference.str();
}

TEST_P(Sizes, LimitsBelowTheSmallestAreRefused) {
  Decodes decodes(kReference);
  const graph::Graph graph = decoder(small_config(), GetParam(), DType::F32);
  const std::size_t limit = decodes.smallest_limit(graph);
  try {
    (void)decodes.compile(graph, limit - 1024);
    FAIL() << "a limit below the smallest one is accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::ResourceExhausted);
    EXPECT_NE(std::string(e.message()).find("the smallest limit that works is " + size_text(limit)),
              std::string::npos)
        << e.message();
  }
}

// Random sizes, limits between the smallest and what the whole takes.
TEST(Property, EveryLimitGivesTheSamePicture) {
  Decodes decodes(kReference);
  std::uint32_t state = 2463534242U;
  const auto random = [&](std::int64_t below) {
    state ^= state << 13U;
    state ^= state >> 17U;
    state ^= state << 5U;
    return static_cast<std::int64_t>(state % static_cast<std::uint32_t>(below));
  };
  int bundles = 0;
  for (int round = 0; round < 16; ++round) {
    autoencoders::KlConfig config = small_config();
    config.mid_block_add_attention = random(3) > 0;
    config.block_out_channels.resize(static_cast<std::size_t>(1 + random(3)), 16);
    const Shape z{1 + random(2), 4, 5 + random(9), 2 + random(8)};
    const graph::Graph graph = decoder(config, z, DType::F32);
    const runtime::CompiledProgram whole = decodes.compile(graph, 0);
    const std::size_t smallest = decodes.smallest_limit(graph);
    const std::size_t room = decodes.bytes(whole) - std::min(decodes.bytes(whole), smallest);
    const std::size_t limit = smallest + room * static_cast<std::size_t>(random(60)) / 100;
    const runtime::CompiledProgram bands = decodes.compile(graph, limit);
    bundles += is_bundle(bands) ? 1 : 0;
    EXPECT_LE(decodes.bytes(bands), limit);
    const Difference difference = compare(decodes.run(bands), decodes.run(whole));
    EXPECT_LE(difference.relative, 1e-5)
        << z.str() << " within " << limit << ": " << difference.str();
  }
  EXPECT_GE(bundles, 6);
}

}  // namespace
}  // namespace difflet::bands
