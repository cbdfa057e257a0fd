#include "difflet/bench/synthetic_shards.h"

#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/bench/random_weights.h"
#include "difflet/io/safetensors_writer.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kShardBytes = std::uint64_t{2} << 30U;
constexpr std::uint64_t kBlock = std::uint64_t{2} << 20U;  // elements of a piece of work: 4 MB

std::uint64_t bytes_of(const graph::ParamDecl& param) {
  return static_cast<std::uint64_t>(param.shape.elements()) * sizeof(std::uint16_t);
}

std::string header_of(std::span<const graph::ParamDecl> params) {
  constexpr std::size_t kAlignment = 64;
  std::vector<io::TensorDecl> tensors;
  tensors.reserve(params.size());
  for (const graph::ParamDecl& param : params) {
    tensors.push_back({param.name, DType::BF16, param.shape});
  }
  return io::safetensors_header(tensors, {{"format", "pt"}}, kAlignment);
}

// Elements [first, first + count) of a parameter, and where they go.
struct Block {
  const graph::ParamDecl* param = nullptr;
  std::uint64_t first = 0, count = 0;
  std::uint64_t offset = 0;
};

void write_shard(const fs::path& path, std::span<const graph::ParamDecl> params,
                 ThreadPool& threads, const std::function<void()>& check_stop) {
  const std::string header = header_of(params);
  std::vector<Block> blocks;
  std::uint64_t offset = header.size();
  for (const graph::ParamDecl& param : params) {
    const auto elements = static_cast<std::uint64_t>(param.shape.elements());
    for (std::uint64_t first = 0; first < elements; first += kBlock) {
      const std::uint64_t count = std::min(kBlock, elements - first);
      blocks.push_back({&param, first, count, offset});
      offset += count * sizeof(std::uint16_t);
    }
  }
  StagedFile file(path, offset);
  file.write(0, std::as_bytes(std::span(header)));
  std::vector<std::vector<std::uint16_t>> buffers(static_cast<std::size_t>(threads.size()));
  threads.run(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t task, int thread) {
    check_stop();
    const Block& block = blocks[static_cast<std::size_t>(task)];
    auto& values = buffers[static_cast<std::size_t>(thread)];
    values.resize(block.count);
    fill_random(block.param->name, distribution_of(block.param->name, block.param->shape),
                block.first, values);
    file.write(block.offset, std::as_bytes(std::span(values)));
  });
  file.keep();
}

// Parameters of one file after the other, each at most kShardBytes unless a single one is larger.
std::vector<std::span<const graph::ParamDecl>> split_shards(
    std::span<const graph::ParamDecl> params) {
  std::vector<std::span<const graph::ParamDecl>> shards;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (i > begin && bytes + bytes_of(params[i]) > kShardBytes) {
      shards.push_back(params.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += bytes_of(params[i]);
  }
  shards.push_back(params.subspan(begin));
  return shards;
}

}  // namespace

void write_random_shards(const fs::path& folder, const std::string& name,
                         std::span<const graph::ParamDecl> params, ThreadPool& threads,
                         const std::function<void()>& check_stop) {
  const auto shards = split_shards(params);
  if (shards.size() == 1) {
    write_shard(folder / (name + ".safetensors"), params, threads, check_stop);
    return;
  }
  std::uint64_t total = 0;
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        fmt::format("{}-{:05}-of-{:05}.safetensors", name, i + 1, shards.size());
    write_shard(folder / file, shards[i], threads, check_stop);
    for (const graph::ParamDecl& param : shards[i]) {
      map[param.name] = file;
      total += bytes_of(param);
    }
  }
  const Json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  const std::string text = index.dump(2) + "\n";
  write_file_atomic(folder / (name + ".safetensors.index.json"), std::as_bytes(std::span(text)));
}

}  // namespace difflet::bench
