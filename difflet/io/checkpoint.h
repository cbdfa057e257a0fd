// The weights of one component of a diffusers folder: a single safetensors file or shards with an
// index, found by the names that diffusers and transformers use.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"

namespace difflet::io {

// A file that may hold a component's weights, or list the shards that do.
struct WeightFile {
  std::string name;
  bool is_index = false;
};
// In the order in which the original libraries look. Throws InvalidArgument for a variant that is not
// part of a file's name.
std::vector<WeightFile> weight_files(const std::string& variant);
// The variant in the name of a weight file or index (empty: none); nothing for another file.
std::optional<std::string> weight_variant(const std::string& name);
// weight_map of an index: tensor name -> shard, a plain file name. Throws DataLoss, naming `origin`.
std::map<std::string, std::string> parse_weight_index(const Json& index, const std::string& origin);

class Checkpoint {
 public:
  // `folder` holds diffusion_pytorch_model[.variant].safetensors or model[.variant].safetensors, or
  // the sharded form with *.safetensors.index[.variant].json. Opens every shard's header. Throws
  // NotFound when there are no weights (naming what was looked for and what would help) or a shard is
  // absent (naming all), DataLoss when a tensor is listed but missing, there twice or truncated.
  static Checkpoint open(const std::filesystem::path& folder, const std::string& variant = "");

  // Also true for a tensor whose dtype is not supported: asking for that one throws Unsupported.
  bool has(const std::string& name) const { return where_.contains(name); }
  const TensorEntry& entry(const std::string& name) const;  // throws NotFound, Unsupported
  HostTensor tensor(const std::string& name) const;         // view
  void release(const std::string& name) const;              // lets go of its mapped pages
  const std::filesystem::path& file_of(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  void add_file(SafetensorsFile file);
  const SafetensorsFile& file(const std::string& name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> where_;
};

}  // namespace difflet::io
