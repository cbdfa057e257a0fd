// On `cpu`, a decode in bands is the whole decode to 60 dB or more.
#include "tests/bands/decode.h"
#include <gtest/gtest.h>

#include "difflet/backends/bands/bundle.h"
#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/tensor/compare.h"

namespace difflet::bands {
namespace {

using testing::decoder;
using testing::Decodes;

const cpu::CpuBackend kCpu;

// The picture within `limit` against the whole one.
Difference difference_within(Decodes& decodes, const graph::Graph& graph, std::size_t limit) {
  const runtime::CompiledProgram bands = decodes.compile(graph, limit);
  EXPECT_TRUE(is_bundle(bands)) << limit;
  EXPECT_LE(decodes.bytes(bands), limit);
  return compare(decodes.run(bands), decodes.run(decodes.compile(graph, 0)));
}

struct Case {
  Shape z;
  DType dtype;
};

class Small : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Decoder, Small,
                         ::testing::Values(Case{{1, 4, 16, 12}, DType::F32},
                                           Case{{1, 4, 16, 12}, DType::BF16},
                                           Case{{1, 4, 21, 9}, DType::F32},
                                           Case{{1, 4, 21, 9}, DType::BF16},
                                           Case{{2, 4, 9, 10}, DType::BF16}),
                         [](const auto& p) {
                           return fmt::format("{}_{}x{}x{}", dtype_name(p.param.dtype),
                                              p.param.z[0], p.param.z[2], p.param.z[3]);
                         });

TEST_P(Small, SmallestLimitGivesTheSamePictureOnEveryLevel) {
  for (int i = 0; i <= static_cast<int>(cpu::detect_level()); ++i) {
    const std::string level(cpu::level_name(static_cast<cpu::Level>(i)));
    Decodes decodes(kCpu, 2, level);
    const graph::Graph graph = decoder(testing::small_config(), GetParam().z, GetParam().dtype);
    const Difference difference = difference_within(decodes, graph, decodes.smallest_limit(graph));
    EXPECT_GE(difference.psnr, 60) << level << ": " << difference.str();
  }
}

class FullWidth : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Decoder, FullWidth, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(FullWidth, DecoderGivesTheSamePictureInHalfOfItsMemory) {
  Decodes decodes(kCpu);
  const graph::Graph graph = decoder(testing::flux_config(), {1, 16, 18, 14}, GetParam());
  const std::size_t whole = decodes.bytes(decodes.compile(graph, 0));
  const Difference difference = difference_within(decodes, graph, whole / 2);
  EXPECT_GE(difference.psnr, 60) << difference.str();
}

// Where the fastest convolutions would take most of the limit as scratch, others are taken.
TEST(Scratch, IsLittleWhereTheLimitAsksForIt) {
  Decodes decodes(kCpu);
  const graph::Graph graph = decoder(testing::flux_config(), {1, 16, 8, 6}, DType::F32);
  const std::size_t limit = decodes.smallest_limit(graph);
  EXPECT_LE(limit, std::size_t{16} << 20U);
  const runtime::CompiledProgram bands = decodes.compile(graph, limit);
  for (const std::string& line : decodes.backend().explain(bands, decodes.context(), {})) {
    EXPECT_EQ(line.find("conv.winograd.f32 ("), std::string::npos) << line;
  }
  EXPECT_GE(difference_within(decodes, graph, limit).psnr, 60);
}

}  // namespace
}  // namespace difflet::bands
