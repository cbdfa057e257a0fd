// Which kernels run a model at full size, and the memory that it takes, by planning alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/executable.h"
#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/base/context.h"
#include "difflet/models/autoencoders/kl.h"
#include "difflet/models/flux/transformer.h"

namespace difflet::cpu {
namespace {

class Plans : public testing::Test {
 protected:
  std::vector<std::string> explain(const graph::Graph& g, const std::string& level) {
    return CpuBackend().explain(g, context_, {.cpu_level = level, .memory_limit = 0});
  }
  runtime::MemoryReport memory(const graph::Graph& g) { return CpuBackend().plan(g, context_, {}); }
  runtime::CompiledProgram compile(const graph::Graph& g) {
    return CpuBackend().compile(g, context_, {});
  }

 private:
  Log log_{LogLevel::Error};
  ThreadPool threads_{2};
  Context context_{log_, threads_};
};

// One double and one single block of FLUX.1 at full width.
graph::Graph flux_blocks(std::int64_t tokens, DType dtype) {
  flux::Config config;
  config.num_layers = 1;
  config.num_single_layers = 1;
  return flux::Transformer(config).trace({{"hidden_states", Shape{1, tokens, 64}},
                                          {"encoder_hidden_states", Shape{1, 512, 4096}},
                                          {"pooled_projections", Shape{1, 768}},
                                          {"timestep", Shape{1}},
                                          {"img_ids", Shape{tokens, 3}},
                                          {"txt_ids", Shape{512, 3}}},
                                         dtype, {});
}

// The picture decoder of FLUX.1.
graph::Graph flux_decoder(std::int64_t latent, DType dtype) {
  autoencoders::KlConfig config;
  config.latent_channels = 16;
  config.block_out_channels = {128, 256, 512, 512};
  config.layers_per_block = 2;
  config.use_post_quant_conv = false;
  return autoencoders::KlDecoder(config).trace({{"z", Shape{1, 16, latent, latent}}}, dtype, {});
}

// Kernels of the steps whose scope holds `scope`.
std::vector<std::string> steps(const std::vector<std::string>& lines, const std::string& scope) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (line.find(scope) != std::string::npos) {
      found.push_back(line.substr(0, line.find(' ')));
    }
  }
  return found;
}

struct Expected {
  std::string level;
  DType dtype;
  std::string linear, attention;
};

class FluxKernels : public Plans, public testing::WithParamInterface<Expected> {};
INSTANTIATE_TEST_SUITE_P(
    Levels, FluxKernels,
    testing::Values(Expected{"scalar", DType::F32, "linear.scalar.f32", "attention.scalar"},
                    Expected{"scalar", DType::BF16, "linear.scalar.bf16", "attention.scalar"},
                    Expected{"avx2", DType::F32, "linear.avx2.f32", "attention.avx2"},
                    Expected{"avx2", DType::BF16, "linear.avx2.bf16", "attention.avx2"},
                    Expected{"avx512", DType::F32, "linear.avx512.f32", "attention.avx512"},
                    Expected{"avx512", DType::BF16, "linear.avx512.bf16", "attention.avx512"},
                    Expected{"avx512vnni", DType::F32, "linear.avx512.f32", "attention.avx512"},
                    Expected{"avx512vnni", DType::BF16, "linear.avx512.bf16", "attention.avx512"},
                    Expected{"avx512bf16", DType::F32, "linear.avx512.f32", "attention.avx512"},
                    Expected{"avx512bf16", DType::BF16, "linear.avx512bf16.bf16",
                             "attention.avx512bf16.bf16"},
                    Expected{"amx", DType::F32, "linear.avx512.f32", "attention.avx512"},
                    Expected{"amx", DType::BF16, "linear.amx.bf16", "attention.amx.bf16"}),
    [](const auto& test) {
      return test.param.level + "_" + std::string(dtype_name(test.param.dtype));
    });

TEST_P(FluxKernels, AreThoseOfTheLevelAndNothingElseRunsInTheBlocks) {
  // Planned on any chip: nothing runs.
  const PlanOptions options{.level = *parse_level(GetParam().level), .threads = 2};
  const auto lines =
      lines_of(Planner(prepare(flux_blocks(4096, GetParam().dtype)), options).build());
  int products = 0;
  int attentions = 0;
  for (const std::string scope : {"transformer_blocks.0", "single_transformer_blocks.0"}) {
    for (const std::string& kernel : steps(lines, scope)) {
      products += kernel == GetParam().linear ? 1 : 0;
      attentions += kernel == GetParam().attention ? 1 : 0;
      EXPECT_THAT(kernel,
                  testing::AnyOf(GetParam().linear, GetParam().attention, "layer_norm.modulated",
                                 "rope.normed", "rope", "rms_norm", "activate"));
    }
  }
  EXPECT_GE(products, 20);
  EXPECT_GE(attentions, 2);
}

TEST_F(Plans, FluxAt1024PixelsNeedsLittleBesideItsWeights) {
  // Live while the single block rotates its keys: x, k, v, rotated q and k (27 MB each) and the
  // concatenation (135 MB).
  const runtime::MemoryReport m = memory(flux_blocks(4096, DType::BF16));
  EXPECT_LE(m.arena_bytes, std::size_t{272} << 20U);
  EXPECT_LE(m.scratch_bytes, std::size_t{64} << 20U);
}

TEST_F(Plans, PictureDecoderAt1024PixelsStaysBelowItsWidestPlace) {
  // Live at the widest place: 256 channels of 1024 x 1024 once and 128 twice, 1024 MiB; where the doubling
  // of the picture does not fold into the convolution after it, 256 channels twice and 128 once.
  const std::size_t most = detect_level() >= Level::Avx512Bf16 ? 1040 : 1536;
  const runtime::MemoryReport m = memory(flux_decoder(128, DType::BF16));
  EXPECT_LE(m.arena_bytes, most << 20U);
  EXPECT_LE(m.total(), (most + 256) << 20U);
}

TEST_F(Plans, PictureDecoderRunsNoReferenceConvolution) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const std::string& line : explain(flux_decoder(64, dtype), "")) {
      EXPECT_EQ(line.find("(ref"), std::string::npos) << line;
      EXPECT_FALSE(line.starts_with("reduce") || line.starts_with("matmul")) << line;
    }
  }
}

TEST_F(Plans, OfTheTextAreThoseOfTheFreshGraph) {
  for (const graph::Graph& g : {flux_blocks(4096, DType::BF16), flux_decoder(64, DType::F32)}) {
    const runtime::CompiledProgram program = compile(g);
    const PlanOptions options{.level = detect_level(), .threads = 2};
    const Plan fresh = Planner(prepare(g), options).build();
    const Plan read = Planner(graph::parse(program.code), options).build();
    EXPECT_EQ(read.pieces(), fresh.pieces());
    EXPECT_EQ(read.arena_offset, fresh.arena_offset);
    ASSERT_EQ(read.steps.size(), fresh.steps.size());
    for (std::size_t i = 0; i < read.steps.size(); ++i) {
      EXPECT_EQ(read.steps[i].what, fresh.steps[i].what);
    }
  }
}

TEST_F(Plans, PicturesOfAllSizesShareTheWeightsOfTheTransformer) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    EXPECT_EQ(compile(flux_blocks(256, dtype)).pieces, compile(flux_blocks(4096, dtype)).pieces);
  }
}

TEST_F(Plans, PicturesOfAllSizesShareTheWeightsOfTheDecoder) {
  EXPECT_EQ(compile(flux_decoder(32, DType::BF16)).pieces,
            compile(flux_decoder(128, DType::BF16)).pieces);
}

}  // namespace
}  // namespace difflet::cpu
