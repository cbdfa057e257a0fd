// An artifact of two tensor-parallel ranks: one weight file a rank, and the result of one rank.
#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"
#include "difflet/compile/prepared.h"
#include "difflet/io/safetensors.h"
#include "difflet/tensor/compare.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;
using artifact::Stage;
using compile::NamedTensors;

constexpr double kTolerance = 2e-5;  // relative: f32 sums in another order

class ArtifactOfTwoRanks : public ::testing::Test {
 protected:
  ArtifactOfTwoRanks() {
    for (const auto& [name, entry] : file_.entries()) {
      shapes_[name] = entry.shape;
      inputs_.emplace(name, file_.tensor(name));
    }
  }
  compile::BuildOptions build(std::int64_t ranks) const {
    return {.dtype = DType::F32,
            .mesh = spmd::Mesh(1, 1, 1, ranks),
            .schedule_capacity = 2,
            .variant = "",
            .backend = &backends::find("reference"),
            .backend_options = {}};
  }
  artifact::Artifact compiled(std::int64_t ranks) {
    const auto weights = component_.weights(threads_);
    (void)compile::compile_to_store("transformer", component_, {&shapes_, 1}, build(ranks), store_,
                                    context_, *weights, nullptr);
    const auto found = store_.find(
        compile::identity_of(component_, {&shapes_, 1}, build(ranks), store_.root(), context_));
    EXPECT_TRUE(found.artifact) << found.reason;
    return *found.artifact;
  }
  // Runs one program on all ranks; `values` holds and gets what the programs pass on, by rank.
  void run(const artifact::Artifact& artifact, Stage stage, std::vector<NamedTensors>& values) {
    const runtime::CompiledProgram program = artifact.program(0, stage);
    const std::vector<std::size_t> ranks{0, 1};
    const auto weights = artifact.open_weights(ranks, artifact::ShardMode::Mapped, threads_);
    std::vector<std::vector<HostTensor>> inputs(2);
    for (const std::size_t rank : ranks) {
      for (const runtime::Port& port : program.inputs) {
        HostTensor value = values[rank].at(port.name);
        if (stage == Stage::Schedule && port.binding == graph::Binding::Schedule) {
          value = repeated(value, port.type.shape[0]);
        } else if (value.shape() != port.type.shape) {
          value = value.narrow(0, 0, 1).reshaped(port.type.shape);  // the first timestep's
        }
        inputs[rank].push_back(value.to(port.type.dtype));
      }
    }
    const auto results = reference::run_ranks(program, weights, inputs);
    for (const std::size_t rank : ranks) {
      for (std::size_t i = 0; i < program.outputs.size(); ++i) {
        values[rank].insert_or_assign(program.outputs[i].name, results[rank][i]);
      }
    }
  }
  static HostTensor repeated(const HostTensor& value, std::int64_t times) {
    std::vector<std::int64_t> dims{times};
    dims.insert(dims.end(), value.shape().dims().begin(), value.shape().dims().end());
    HostTensor all(value.dtype(), Shape(dims));
    const std::size_t bytes = value.bytes().size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(times); ++i) {
      std::copy(value.bytes().begin(), value.bytes().end(),
                all.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(i * bytes));
    }
    return all;
  }

  fs::path folder_ = fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data/flux_transformer/tiny";
  testing::TemporaryFolder temporary_;
  artifact::Store store_{temporary_ / "store"};
  Log log_{LogLevel::Error};
  ThreadPool threads_{2};
  Context context_{.log = log_, .threads = threads_};
  compile::ComponentFolder component_ = compile::ComponentFolder::open(folder_, "", "", log_);
  io::SafetensorsFile file_ = io::SafetensorsFile::open(folder_ / "inputs.safetensors");
  models::ShapeMap shapes_;
  NamedTensors inputs_;
};

TEST_F(ArtifactOfTwoRanks, HasAFileForEachAndTheResultOfOne) {
  const artifact::Artifact two = compiled(2);
  EXPECT_EQ(two.ranks(), 2U);
  std::size_t shards = 0;
  for (const auto& entry : fs::recursive_directory_iterator(temporary_ / "store/weights")) {
    const std::string name = entry.path().filename().string();
    shards +=
        name == "tp0_sharded_checkpoint.safetensors" || name == "tp1_sharded_checkpoint.safetensors"
            ? 1
            : 0;
  }
  EXPECT_EQ(shards, 2U);
  std::vector<NamedTensors> values(2, inputs_);
  for (const Stage stage : {Stage::Request, Stage::Schedule, Stage::Step}) {
    run(two, stage, values);
  }

  const compile::Prepared one("transformer", component_, {shapes_}, 0, build(1),
                              {.mode = compile::ArtifactMode::Off}, context_);
  const HostTensor expected =
      one.load(*component_.weights(threads_))->run(inputs_).at("sample");
  for (const NamedTensors& rank : values) {
    const Difference d = compare(rank.at("sample"), expected);
    EXPECT_LE(d.relative, kTolerance) << d.str();
  }
}

TEST_F(ArtifactOfTwoRanks, IsAnotherOneThanOfOneRank) {
  const artifact::Artifact one = compiled(1);
  const artifact::Artifact two = compiled(2);
  EXPECT_NE(one.key(), two.key());
  EXPECT_NE(one.manifest().weights.key, two.manifest().weights.key);
  EXPECT_EQ(one.ranks(), 1U);
}

}  // namespace
}  // namespace difflet
