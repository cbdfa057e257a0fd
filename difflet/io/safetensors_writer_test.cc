#include "difflet/io/safetensors_writer.h"

#include <gmock/gmock.h>

#include "difflet/base/json.h"
#include "difflet/base/testing.h"
#include "difflet/io/checkpoint.h"

namespace difflet::io {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

HostTensor filled(const TensorDecl& decl, int seed) {
  HostTensor tensor(decl.dtype, decl.shape);
  std::uint32_t state = static_cast<std::uint32_t>(seed) + 1;
  for (std::byte& b : tensor.mutable_bytes()) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::byte>(state >> 24U & (decl.dtype == DType::Bool ? 1U : 0x3fU));
  }
  return tensor;
}

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

TEST(SafetensorsHeader, PadsToTheAlignment) {
  const std::vector<TensorDecl> tensors{{"a", DType::I8, {3}}, {"b", DType::F32, {2, 2}}};
  for (const std::size_t alignment : {8U, 64U, 4096U}) {
    const std::string header = safetensors_header(tensors, {{"k", "v"}}, alignment);
    EXPECT_EQ(header.size() % alignment, 0U);
    const std::string file = header + std::string(19, 'd');
    std::map<std::string, std::string> metadata;
    const auto entries = parse_safetensors_header(std::as_bytes(std::span(file)), "f", &metadata);
    EXPECT_EQ(entries.at("a").begin, header.size());
    EXPECT_EQ(entries.at("b").begin, header.size() + 3);
    EXPECT_THAT(metadata, ElementsAre(std::pair("k", "v")));
  }
}

TEST(SafetensorsHeader, RefusesBadNames) {
  const auto header = [](const std::string& a, const std::string& b) {
    return safetensors_header(std::vector<TensorDecl>{{a, DType::I8, {1}}, {b, DType::I8, {1}}},
                              {});
  };
  EXPECT_ERROR(header("a", "a"), ErrorCode::InvalidArgument, "'a' is there twice");
  EXPECT_ERROR(header("a", "__metadata__"), ErrorCode::InvalidArgument, "__metadata__");
  EXPECT_ERROR(header("a", "\xff"), ErrorCode::InvalidArgument, "UTF-8");
}

TEST(CheckpointWriter, OneFileHasNoIndex) {
  const TemporaryFolder folder;
  const std::vector<TensorDecl> tensors{{"a", DType::I8, {3, 5}}, {"b", DType::F32, {3}}};
  CheckpointWriter writer(folder.path(), {.stem = "model", .variant = "fp16"}, tensors);
  writer.put("b", filled(tensors[1], 1));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.fp16.safetensors"));
  writer.put("a", filled(tensors[0], 0));
  writer.finish();
  EXPECT_THAT(files_in(folder.path()), ElementsAre("model.fp16.safetensors"));
  EXPECT_EQ(writer.bytes(), std::filesystem::file_size(folder / "model.fp16.safetensors"));
  const Checkpoint read = Checkpoint::open(folder.path(), "fp16");
  EXPECT_TRUE(same(read.tensor("a"), filled(tensors[0], 0)));
  EXPECT_TRUE(same(read.tensor("b"), filled(tensors[1], 1)));
}

TEST(CheckpointWriter, ShardsAreIndexed) {
  const TemporaryFolder folder;
  // 60 + 12, 200 (larger than a shard), 8
  const std::vector<TensorDecl> tensors{{"a", DType::I8, {60}},
                                        {"a_scale", DType::F32, {3}},
                                        {"b", DType::BF16, {100}},
                                        {"c", DType::I64, {1}}};
  CheckpointWriter writer(folder.path(), {.stem = "diffusion_pytorch_model"}, tensors, 75);
  for (const std::size_t i : {3U, 0U, 2U, 1U}) {
    writer.put(tensors[i].name, filled(tensors[i], static_cast<int>(i)));
  }
  writer.finish();
  EXPECT_THAT(files_in(folder.path()),
              ElementsAre("diffusion_pytorch_model-00001-of-00003.safetensors",
                          "diffusion_pytorch_model-00002-of-00003.safetensors",
                          "diffusion_pytorch_model-00003-of-00003.safetensors",
                          "diffusion_pytorch_model.safetensors.index.json"));
  const Json index = read_json_file(folder / "diffusion_pytorch_model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 280);
  const Checkpoint read = Checkpoint::open(folder.path());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(same(read.tensor(tensors[i].name), filled(tensors[i], static_cast<int>(i))));
    EXPECT_EQ(read.entry(tensors[i].name).begin % dtype_bytes(tensors[i].dtype), 0U);
  }
}

TEST(CheckpointWriter, RefusesWhatWasNotDeclared) {
  const TemporaryFolder folder;
  const std::vector<TensorDecl> tensors{{"a", DType::I8, {3}}, {"b", DType::I8, {3}}};
  CheckpointWriter writer(folder.path(), {.stem = "model"}, tensors);
  writer.put("a", HostTensor(DType::I8, {3}));
  EXPECT_ERROR(writer.put("c", HostTensor(DType::I8, {3})), ErrorCode::InvalidArgument,
               "'c' was not declared");
  EXPECT_ERROR(writer.put("a", HostTensor(DType::I8, {3})), ErrorCode::InvalidArgument, "twice");
  EXPECT_ERROR(writer.put("b", HostTensor(DType::I8, {4})), ErrorCode::InvalidArgument,
               "'b' is i8[4], but was declared as i8[3]");
  EXPECT_ERROR(writer.finish(), ErrorCode::InvalidArgument, "'b' was declared and not written");
}

TEST(CheckpointWriter, NothingIsLeftWithoutFinish) {
  const TemporaryFolder folder;
  {
    CheckpointWriter writer(folder.path(), {.stem = "model"},
                            {{"a", DType::I8, {3}}, {"b", DType::I8, {3}}}, 3);
    writer.put("a", HostTensor(DType::I8, {3}));
    EXPECT_EQ(files_in(folder.path()).size(), 2U);
  }
  EXPECT_THAT(files_in(folder.path()), IsEmpty());
  EXPECT_ERROR(CheckpointWriter(folder.path(), {.stem = "model"},
                                {{"a", DType::I8, {3}}, {"a", DType::I8, {3}}}, 3),
               ErrorCode::InvalidArgument, "'a' is there twice");
  EXPECT_ERROR(CheckpointWriter(folder / "absent", {.stem = "model"}, {{"a", DType::I8, {3}}}),
               ErrorCode::NotFound, "there is no folder");
  EXPECT_THAT(files_in(folder.path()), IsEmpty());
}

// Random declarations, sizes of shards and orders of writing come back as they were.
TEST(CheckpointWriter, WritesWhatItReads) {
  std::uint32_t state = 7;
  const auto next = [&state](std::uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8U) % below;
  };
  constexpr std::array kTypes{DType::F32, DType::BF16, DType::F16, DType::I8,
                              DType::U8,  DType::I32,  DType::I64, DType::Bool};
  for (int round = 0; round < 20; ++round) {
    const TemporaryFolder folder;
    std::vector<TensorDecl> tensors;
    for (std::uint32_t i = 0; i < 1 + next(12); ++i) {
      const Shape shape = next(4) == 0 ? Shape() : Shape{next(7), 1 + next(9)};
      tensors.push_back({fmt::format("t{}.é \"{}", i, next(99)), kTypes[next(8)], shape});
    }
    CheckpointWriter writer(folder.path(), {.stem = "model"}, tensors, 1 + next(300));
    std::vector<std::size_t> order(tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      std::swap(order[i], order[next(static_cast<std::uint32_t>(i) + 1)]);
    }
    for (const std::size_t i : order) {
      writer.put(tensors[i].name, filled(tensors[i], static_cast<int>(i)));
    }
    writer.finish();
    const Checkpoint read = Checkpoint::open(folder.path());
    EXPECT_EQ(read.names().size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(same(read.tensor(tensors[i].name), filled(tensors[i], static_cast<int>(i))));
      EXPECT_EQ(read.entry(tensors[i].name).begin % dtype_bytes(tensors[i].dtype), 0U);
    }
  }
}

}  // namespace
}  // namespace difflet::io
