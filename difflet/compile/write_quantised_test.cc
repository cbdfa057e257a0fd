#include "difflet/compile/write_quantised.h"

#include <gmock/gmock.h>

#include "difflet/base/testing.h"
#include "difflet/compile/int8_weight.h"

namespace difflet::compile {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Not;
using testing::TemporaryFolder;

constexpr const char* kFolder = "demo/text_encoder_2";  // T5 of 3 layers or so
const std::string kLayer = "encoder.block.0.layer.0.SelfAttention.q.weight";

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

class WriteQuantised : public ::testing::Test {
 protected:
  ComponentQuant quant(WeightQuant mode) const {
    return requested_layers(floats_.quant(), {.mode = mode, .groups = {}}, kFolder);
  }
  void write(const ComponentQuant& quant, const SmoothVectors& smooth = {}) {
    write_quantised(floats_, quant, smooth, "", folder_.path(), threads_,
                    [&](std::size_t done, std::size_t total) {
                      EXPECT_EQ(done, done_ + 1);
                      done_ = done;
                      total_ = total;
                    });
  }

  Log log_{LogLevel::Off};
  ThreadPool threads_{2};
  ComponentFolder floats_ = ComponentFolder::open(kFolder, "", "", log_);
  TemporaryFolder folder_;
  std::size_t done_ = static_cast<std::size_t>(-1), total_ = 0;
};

TEST_F(WriteQuantised, IsReadAsStored) {
  const ComponentQuant written = quant(WeightQuant::W8A16);
  write(written);
  EXPECT_EQ(done_, total_);
  const ComponentFolder read = ComponentFolder::open(folder_.path(), "", "", log_);
  EXPECT_TRUE(read.quant().stored);
  EXPECT_EQ(read.quant().layers, written.layers);
  EXPECT_EQ(read.class_name(), floats_.class_name());
  // Throws for a tensor that is missing or one too many.
  (void)read.trace({{"input_ids", Shape{1, 8}}}, DType::BF16);
  const auto names = read.checkpoint().names();
  EXPECT_THAT(names, Contains(kLayer + "_int8"));
  EXPECT_THAT(names, Contains(kLayer + "_scale"));
  EXPECT_THAT(names, Not(Contains(kLayer)));
  const Int8Weight expected =
      quantise_weight(kLayer, floats_.checkpoint().tensor(kLayer), {}, threads_);
  EXPECT_TRUE(same(read.checkpoint().tensor(kLayer + "_int8"), expected.values));
  EXPECT_TRUE(same(read.checkpoint().tensor(kLayer + "_scale"), expected.scale));
  const std::string norm = "encoder.final_layer_norm.weight";
  EXPECT_TRUE(same(read.checkpoint().tensor(norm), floats_.checkpoint().tensor(norm)));
}

TEST_F(WriteQuantised, KeepsAndSmoothsLayersAsPlanned) {
  ComponentQuant written = quant(WeightQuant::W8A8);
  const auto columns = static_cast<std::size_t>(floats_.checkpoint().entry(kLayer).shape[1]);
  SmoothVectors smooth;
  for (auto& [name, layer] : written.layers) {
    layer.mode = name == kLayer ? WeightQuant::W8A8 : WeightQuant::None;
    layer.smooth = name == kLayer;
    layer.kept = name == kLayer ? "" : "for a test";
  }
  EXPECT_ERROR(write(written), ErrorCode::InvalidArgument, "no smoothing vector for '" + kLayer);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  smooth.emplace(kLayer, std::vector<float>(columns, 0.5F));
  done_ = static_cast<std::size_t>(-1);
  write(written, smooth);
  const ComponentFolder read = ComponentFolder::open(folder_.path(), "", "", log_);
  EXPECT_EQ(read.quant().layers, written.layers);
  EXPECT_EQ(read.checkpoint().tensor(kLayer + "_smooth").to_floats(), smooth.at(kLayer));
  EXPECT_TRUE(
      same(read.checkpoint().tensor(kLayer + "_int8"),
           quantise_weight(kLayer, floats_.checkpoint().tensor(kLayer), smooth.at(kLayer), threads_)
               .values));
}

TEST_F(WriteQuantised, LeavesNothingWhenStopped) {
  const auto stop = [](std::size_t done, std::size_t /*total*/) {
    if (done == 5) {
      fail(ErrorCode::Cancelled, "enough");
    }
  };
  EXPECT_ERROR(
      write_quantised(floats_, quant(WeightQuant::W8A16), {}, "", folder_.path(), threads_, stop),
      ErrorCode::Cancelled, "enough");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(WriteQuantised, CountsBytesByGroup) {
  ComponentQuant counted = quant(WeightQuant::W8A16);
  const std::vector<GroupSize> all = group_sizes(counted, floats_.checkpoint());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].group, "attention");
  EXPECT_EQ(all[1].group, "feed_forward");
  std::uint64_t saved = 0;
  for (const GroupSize& size : all) {
    EXPECT_EQ(size.kept, 0U);
    EXPECT_LT(size.after, size.before);
    saved += size.before - size.after;
  }
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  for (const io::TensorDecl& tensor : quantised_tensors(floats_, {})) {
    before += tensor.bytes();
  }
  for (const io::TensorDecl& tensor : quantised_tensors(floats_, counted.plan())) {
    after += tensor.bytes();
  }
  EXPECT_EQ(before - after, saved);
  counted.layers.at(kLayer).mode = WeightQuant::None;
  const std::vector<GroupSize> kept = group_sizes(counted, floats_.checkpoint());
  EXPECT_EQ(kept[0].kept, 1U);
  EXPECT_GT(kept[0].after, all[0].after);
}

}  // namespace
}  // namespace difflet::compile
