// The FLUX transformer over tensor-parallel ranks equals the same weights on one rank.
#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/base/json.h"
#include "difflet/compile/component.h"
#include "difflet/io/safetensors.h"
#include "difflet/models/flux/transformer.h"
#include "difflet/tensor/compare.h"

namespace difflet {
namespace {

constexpr double kTolerance = 2e-5;  // relative: f32 sums in another order

class FluxTensorParallel : public testing::TestWithParam<const char*> {
 protected:
  // How the output of two ranks differs from that of one.
  Difference two_from_one(const compile::ComponentFolder& component) {
    const auto file = io::SafetensorsFile::open(folder_ / "inputs.safetensors");
    models::ShapeMap shapes;
    for (const auto& [name, entry] : file.entries()) {
      shapes[name] = entry.shape;
    }
    ThreadPool threads(1);
    const auto weights = component.weights(threads);
    std::vector<std::vector<HostTensor>> results;  // by mesh, the outputs of rank 0
    for (const std::int64_t ranks : {1, 2}) {
      const graph::Graph g = component.trace(shapes, DType::F32, spmd::Mesh(1, 1, 1, ranks));
      std::vector<HostTensor> inputs;
      for (const graph::NodeId id : g.inputs()) {
        const auto& input = std::get<graph::Input>(g.node(id).op);
        inputs.push_back(file.tensor(input.name).to(input.dtype));
      }
      const auto by_rank = reference::run_ranks(g, *weights, inputs);
      EXPECT_EQ(by_rank.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(compare(by_rank.back()[0], by_rank.front()[0]).max_abs, 0) << "ranks disagree";
      results.push_back(by_rank.front());
    }
    return compare(results[1][0], results[0][0]);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(DIFFLET_SOURCE_DIR) / "tests/golden/data/flux_transformer" / GetParam();
  Log log_{LogLevel::Error};
};

TEST_P(FluxTensorParallel, TwoRanksEqualOne) {
  const auto component = compile::ComponentFolder::open(folder_, "", "", log_);
  ASSERT_EQ(component.as<flux::Transformer>().config().num_attention_heads % 2, 0);
  const Difference d = two_from_one(component);
  EXPECT_LE(d.relative, kTolerance) << d.str();
}

// Of w8a8 no such thing holds: each rank rounds its own part of a row.
TEST_P(FluxTensorParallel, TwoRanksEqualOneWithInt8Weights) {
  auto component = compile::ComponentFolder::open(folder_, "", "", log_);
  component.quantise({.mode = graph::WeightQuant::W8A16, .groups = {}});
  ASSERT_FALSE(component.quant().plan().empty());
  const Difference d = two_from_one(component);
  EXPECT_LE(d.relative, kTolerance) << d.str();
}

INSTANTIATE_TEST_SUITE_P(Cases, FluxTensorParallel,
                         testing::Values("guidance", "tiny", "no_single_sharded"));

}  // namespace
}  // namespace difflet
