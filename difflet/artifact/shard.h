// Weight files: one rank's packed weights as safetensors, each piece a U8 tensor in the layout that the
// programs want, so that a mapped file is ready to run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "difflet/artifact/manifest.h"
#include "difflet/base/thread_pool.h"
#include "difflet/runtime/program.h"

namespace difflet::artifact {

// Data start at a multiple of this, pieces at one of runtime::kPieceAlignment.
inline constexpr std::size_t kShardDataAlignment = 4096;

// Writes pieces while they are packed; writing one overlaps with packing the next. Takes memory for two
// of the largest pieces. Each piece is taken once: begin() of one that has been written, or that is not
// in the list, gives nothing. Errors of writing are thrown by the next call: ResourceExhausted (disk
// full), Unavailable.
class ShardWriter final : public runtime::PieceSink {
 public:
  // `path` must not exist. Fastest when pieces come in the order of the list.
  ShardWriter(const std::filesystem::path& path, std::vector<runtime::WeightPiece> pieces);
  ~ShardWriter() override;  // removes the file unless it was finished
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  std::span<std::byte> begin(const runtime::WeightPiece& piece) override;
  void end(const runtime::WeightPiece& piece) override;
  // Makes the file durable. Throws Internal naming a piece that never came.
  FileRecord finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Mapped: the page cache's own pages, shared between processes. Copied: read into huge pages of this
// process.
enum class ShardMode : std::uint8_t { Mapped, Copied };
std::string_view shard_mode_name(ShardMode mode) noexcept;  // "mapped", "copied"

struct ShardReport {
  ShardMode mode = ShardMode::Mapped;
  std::size_t bytes = 0;
  double seconds = 0;  // until every byte is in memory
};

// One shard to be opened. `owner` is kept as long as the weights are.
struct ShardFile {
  int fd = -1;            // open for reading; stays the caller's
  std::string path;       // for messages
  std::size_t bytes = 0;  // that the file must have
  std::shared_ptr<const void> owner = nullptr;
};

// All files at once, each block read by whichever thread is free; returns when all bytes are in memory.
// Throws DataLoss naming the file when size or header are wrong, ResourceExhausted, Unavailable.
std::vector<std::shared_ptr<const runtime::PackedWeights>> open_shards(
    std::span<const ShardFile> files, ShardMode mode, ThreadPool& threads,
    ShardReport* report = nullptr);
// Throws DataLoss unless size and header are right and hold exactly these pieces; reads no piece.
void check_shard(const ShardFile& file, std::span<const runtime::WeightPiece> pieces);
// open_shards() of one file by its path; links are refused.
std::shared_ptr<const runtime::PackedWeights> open_shard(const std::filesystem::path& path,
                                                         std::size_t bytes, ShardMode mode,
                                                         ThreadPool& threads,
                                                         ShardReport* report = nullptr);

}  // namespace difflet::artifact
