#include "difflet/artifact/shard.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include <gtest/gtest.h>

#include "difflet/base/file.h"
#include "difflet/base/sha256.h"
#include "difflet/base/testing.h"
#include "difflet/io/safetensors.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;
using ::difflet::testing::TemporaryFolder;

const std::vector<runtime::WeightPiece> kPieces = {
    {"z|rows", 128}, {"a|rows", 64 * 1000}, {"m", 64}};

std::byte value_of(const runtime::WeightPiece& piece, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(piece.name[0]) + i * 7);
}

void put(ShardWriter& writer, const runtime::WeightPiece& piece) {
  const auto memory = writer.begin(piece);
  ASSERT_EQ(memory.size(), piece.bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % runtime::kPieceAlignment, 0U);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = value_of(piece, i);
  }
  writer.end(piece);
}

FileRecord write(const fs::path& path, const std::vector<std::size_t>& order) {
  ShardWriter writer(path, kPieces);
  for (const std::size_t i : order) {
    put(writer, kPieces[i]);
    EXPECT_TRUE(writer.begin(kPieces[i]).empty()) << "each piece is taken once";
  }
  EXPECT_TRUE(writer.begin({"other", 64}).empty());
  return writer.finish();
}

TEST(Shard, WhatIsWrittenIsReadInBothModes) {
  const TemporaryFolder folder;
  ThreadPool threads(2);
  const FileRecord file = write(folder / "s", {0, 1, 2});
  EXPECT_EQ(file.name, "s");
  EXPECT_EQ(file.bytes, fs::file_size(folder / "s"));
  EXPECT_EQ(file.sha256, sha256_hex(read_text_file(folder / "s")));
  for (const ShardMode mode : {ShardMode::Mapped, ShardMode::Copied}) {
    ShardReport report;
    const auto weights = open_shard(folder / "s", file.bytes, mode, threads, &report);
    EXPECT_EQ(report.mode, mode);
    EXPECT_EQ(report.bytes, file.bytes);
    for (const runtime::WeightPiece& piece : kPieces) {
      const auto bytes = weights->piece(piece);
      ASSERT_EQ(bytes.size(), piece.bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % runtime::kPieceAlignment, 0U);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        ASSERT_EQ(bytes[i], value_of(piece, i)) << piece.name << " " << i;
      }
    }
    EXPECT_ERROR(weights->piece({"z|rows", 64}), ErrorCode::DataLoss, "'z|rows' has 128 bytes");
    EXPECT_ERROR(weights->piece({"b", 64}), ErrorCode::DataLoss, "no packed weight 'b'");
  }
}

TEST(Shard, AnyOrderOfPackingGivesTheSameFile) {
  const TemporaryFolder folder;
  const FileRecord a = write(folder / "a", {0, 1, 2});
  const FileRecord b = write(folder / "b", {2, 0, 1});
  EXPECT_EQ(a.sha256, b.sha256);
  EXPECT_EQ(read_text_file(folder / "a"), read_text_file(folder / "b"));
}

TEST(Shard, IsSafetensorsWithDataOnAPage) {
  const TemporaryFolder folder;
  write(folder / "s", {0, 1, 2});
  const auto file = io::SafetensorsFile::open(folder / "s");
  EXPECT_EQ(file.entry("z|rows").begin, kShardDataAlignment);
  EXPECT_EQ(file.entry("a|rows").dtype, DType::U8);
  EXPECT_EQ(file.entry("a|rows").shape, Shape({64 * 1000}));
}

TEST(Shard, UnfinishedFilesAreRemoved) {
  const TemporaryFolder folder;
  {
    ShardWriter writer(folder / "s", kPieces);
    put(writer, kPieces[0]);
    EXPECT_ERROR(writer.finish(), ErrorCode::Internal, "'a|rows' was not packed");
  }
  EXPECT_FALSE(fs::exists(folder / "s"));
  write(folder / "s", {0, 1, 2});
  EXPECT_ERROR(ShardWriter(folder / "s", kPieces), ErrorCode::Unavailable, "File exists");
  EXPECT_TRUE(fs::exists(folder / "s"));
  EXPECT_ERROR(ShardWriter(folder / "no" / "s", kPieces), ErrorCode::NotFound, "/no/s'");
}

TEST(Shard, NoPiecesIsAFileToo) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  ShardWriter writer(folder / "s", {});
  const FileRecord file = writer.finish();
  EXPECT_EQ(file.bytes, kShardDataAlignment);
  EXPECT_NE(open_shard(folder / "s", file.bytes, ShardMode::Copied, threads), nullptr);
}

TEST(Shard, DamageIsDataLoss) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const FileRecord file = write(folder / "s", {0, 1, 2});
  const auto open = [&](std::size_t bytes) {
    return open_shard(folder / "s", bytes, ShardMode::Mapped, threads);
  };
  EXPECT_ERROR(open(file.bytes + 64), ErrorCode::DataLoss, "its manifest says");
  EXPECT_ERROR(open_shard(folder / "t", 1, ShardMode::Mapped, threads), ErrorCode::NotFound, "/t'");
  fs::create_symlink(folder / "s", folder / "link");
  EXPECT_ERROR(open_shard(folder / "link", file.bytes, ShardMode::Mapped, threads),
               ErrorCode::DataLoss, "symbolic link");
  std::string text = read_text_file(folder / "s");
  std::string moved = text;
  moved[0] = static_cast<char>(moved[0] + 1);
  write_file_atomic(folder / "s", std::as_bytes(std::span(moved)));
  EXPECT_ERROR(open(file.bytes), ErrorCode::DataLoss, "/s");
  fs::resize_file(folder / "s", 5);
  EXPECT_ERROR(open(5), ErrorCode::DataLoss, "too few");
  fs::resize_file(folder / "s", 0);
  EXPECT_ERROR(open(0), ErrorCode::DataLoss, "0 bytes");
  io::write_safetensors(folder / "f32", {{"x", HostTensor(DType::F32, {16})}});
  EXPECT_ERROR(
      open_shard(folder / "f32", fs::file_size(folder / "f32"), ShardMode::Mapped, threads),
      ErrorCode::DataLoss, "'x' is not an aligned piece");
}

// A disk that takes no more: a limit on the size of files stands for it.
TEST(Shard, FullDiskIsResourceExhausted) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{8192, 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int status = 1;
    try {
      write(folder / "s", {0, 1, 2});
    } catch (const Error& e) {
      status = e.code() == ErrorCode::ResourceExhausted && !fs::exists(folder / "s") ? 0 : 2;
    }
    ::_exit(status);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace difflet::artifact
