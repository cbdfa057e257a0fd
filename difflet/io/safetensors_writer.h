// Safetensors whose tensors are declared first and written one at a time, so that a checkpoint of any
// size takes the memory of one tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "difflet/base/file.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::io {

struct TensorDecl {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;

  std::uint64_t bytes() const;
  bool operator==(const TensorDecl&) const = default;
};

// What a file begins with: the header's length and the header, padded so that data begin at a multiple of
// `alignment` (of 8 bytes). The data of `tensors` follow without gaps, in this order. Throws
// InvalidArgument for a name that is there twice, is "__metadata__" or is not UTF-8.
std::string safetensors_header(std::span<const TensorDecl> tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::size_t alignment = 8);

// How the weights of a component are named: stem[.variant].safetensors, or shards with their index.
struct WeightNames {
  std::string stem;  // "diffusion_pytorch_model" or "model"
  std::string variant = {};
};

class CheckpointWriter {
 public:
  static constexpr std::uint64_t kShardBytes = 5'000'000'000;

  // Files grow in `folder` under temporary names, with all their space taken. Each shard holds
  // consecutive `tensors`, at most `shard_bytes` of them unless a single one is larger. Throws as
  // safetensors_header() and StagedFile.
  CheckpointWriter(const std::filesystem::path& folder, const WeightNames& names,
                   const std::vector<TensorDecl>& tensors, std::uint64_t shard_bytes = kShardBytes);

  std::uint64_t bytes() const noexcept { return bytes_; }  // of all files but the index

  // In any order, each once. Throws InvalidArgument for a tensor that was not declared so, or again.
  void put(const std::string& name, const HostTensor& tensor);
  // Makes all durable and gives the files their names, the index last. Throws InvalidArgument, naming
  // one, when tensors are missing.
  void finish();

 private:
  struct Shard {
    std::string name;
    StagedFile file;
  };
  struct Place {
    TensorDecl decl;
    std::size_t shard = 0;
    std::uint64_t offset = 0;
    bool written = false;
  };

  void add_shard(const std::string& name, std::vector<TensorDecl> tensors);
  std::string index_text() const;

  std::filesystem::path folder_;
  WeightNames names_;
  std::vector<Shard> shards_;
  std::map<std::string, Place, std::less<>> places_;
  std::uint64_t bytes_ = 0;
};

}  // namespace difflet::io
