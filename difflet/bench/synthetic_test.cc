#include "difflet/bench/synthetic.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/bench/random_weights.h"
#include "difflet/bench/synthetic_parts.h"
#include "difflet/bench/synthetic_shards.h"
#include "difflet/bench/synthetic_tokenizers.h"
#include "difflet/io/checkpoint.h"
#include "difflet/text/tokenizer.h"

namespace difflet::bench {
namespace {

using testing::TemporaryFolder;

TEST(RandomWeights, TheSameBitsEverywhere) {
  std::vector<std::uint16_t> values(8);
  fill_random("x.weight", {.center = 0, .spread = 1}, 0, values);
  const std::vector<std::uint16_t> pinned(values);
  std::vector<std::uint16_t> tail(4);
  fill_random("x.weight", {.center = 0, .spread = 1}, 4, tail);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), pinned.begin() + 4));
  EXPECT_EQ(pinned, (std::vector<std::uint16_t>{0x3e5d, 0x3dbb, 0x3edb, 0x3e91, 0xbf77, 0xbec1,
                                                0x3e36, 0xbf4d}));
}

TEST(RandomWeights, AreAsWideAsTheirDistribution) {
  const Shape shape{64, 256};
  const HostTensor weight = random_weight("a.weight", DType::F32, shape);
  const auto values = weight.as<float>();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_NEAR(*least, -1.7 / 16, 1e-3);
  EXPECT_NEAR(*most, 1.7 / 16, 1e-3);
  const HostTensor rounded = random_weight("a.weight", DType::BF16, shape);
  EXPECT_EQ(bf16_to_f32(rounded.as<std::uint16_t>()[7]), round_bf16(values[7]));
  EXPECT_EQ(distribution_of("norm.weight", Shape{8}).center, 1);
  EXPECT_EQ(distribution_of("shared.weight", Shape{8, 1024}).spread, 1);
}

TEST(Synthetic, ShardsAreACheckpoint) {
  const TemporaryFolder folder;
  std::vector<graph::ParamDecl> params;
  for (const std::int64_t rows : {3, 1, 700}) {
    params.push_back({.name = fmt::format("p{}.weight", rows),
                      .aliases = {},
                      .dtype = DType::BF16,
                      .shape = Shape{rows, 5001},
                      .placement = {}});
  }
  ThreadPool threads(2);
  write_random_shards(folder.path(), "model", params, threads);
  const io::Checkpoint checkpoint = io::Checkpoint::open(folder.path());
  for (const graph::ParamDecl& param : params) {
    const HostTensor whole = random_weight(param.name, DType::BF16, param.shape);
    const HostTensor stored = checkpoint.tensor(param.name);
    EXPECT_EQ(stored.shape(), param.shape);
    EXPECT_TRUE(std::ranges::equal(stored.bytes(), whole.bytes())) << param.name;
  }
}

TEST(Synthetic, PartsHaveTheParametersOfFlux) {
  const auto elements = [](const SyntheticPart& part) {
    std::int64_t n = 0;
    for (const graph::ParamDecl& param : part.params) {
      n += param.shape.elements();
    }
    return n;
  };
  const auto parts =
      synthetic_parts({.doubles = 19, .singles = 38, .t5_layers = 24, .clip_layers = 12});
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(elements(parts[0]), 11'901'408'320);  // FLUX.1-dev
  EXPECT_EQ(elements(parts[1]), 123'060'480);     // CLIP-L, text
  EXPECT_EQ(elements(parts[2]), 4'762'310'656);   // T5 v1.1 XXL, encoder
  EXPECT_EQ(elements(parts[3]), 83'819'683);      // its autoencoder
}

TEST(Synthetic, TokenizersGiveIdsOfTheVocabularies) {
  const TemporaryFolder folder;
  for (const SyntheticFile& file : synthetic_files()) {
    std::filesystem::create_directories((folder.path() / file.path).parent_path());
    std::ofstream(folder.path() / file.path) << file.content.dump();
  }
  const auto check_ids = [&](const char* name, const char* class_name, std::int64_t length,
                             std::int64_t vocabulary, const text::Ids& cat) {
    const auto tokenizer = text::open_tokenizer(folder.path() / name, class_name);
    EXPECT_EQ(tokenizer->encode("A cat"), cat);
    const text::Ids ids =
        tokenizer->encode_padded("Ein \u00dcber-gr\u00fcner \u2603, 42!", length).ids;
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), length);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), vocabulary);
  };
  check_ids("tokenizer", "CLIPTokenizer", 77, kClipVocabulary, {49406, 353, 99, 97, 372, 49407});
  check_ids("tokenizer_2", "T5TokenizerFast", 512, kT5Vocabulary, {3, 36, 3, 70, 68, 87, 1});
}

TEST(Synthetic, LeavesForeignFoldersAlone) {
  const TemporaryFolder folder;
  Log log(LogLevel::Off);
  std::ofstream(folder.path() / "notes.txt") << "mine";
  EXPECT_ERROR(write_synthetic({}, folder.path(), log), ErrorCode::InvalidArgument,
               "not a synthetic model");
  EXPECT_FALSE(is_synthetic(folder.path(), {}));
  std::ofstream(folder.path() / "difflet-synthetic.json") << "{";
  EXPECT_FALSE(is_synthetic(folder.path(), {}));
  EXPECT_ERROR(write_synthetic({.doubles = -1}, folder / "new", log), ErrorCode::InvalidArgument,
               "-1 double blocks: expected 0 ... 1000");
  EXPECT_ERROR(write_synthetic({.t5_layers = 0}, folder / "new", log), ErrorCode::InvalidArgument,
               "T5 layers");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));
}

}  // namespace
}  // namespace difflet::bench
