#include "difflet/io/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/io/safetensors_names.h"

namespace difflet::io {
namespace {

// Consecutive tensors of at most `limit` bytes together, or a single larger one.
std::vector<std::vector<TensorDecl>> split(const std::vector<TensorDecl>& tensors,
                                           std::uint64_t limit) {
  std::vector<std::vector<TensorDecl>> shards(1);
  std::uint64_t bytes = 0;
  for (const TensorDecl& tensor : tensors) {
    if (!shards.back().empty() && bytes + tensor.bytes() > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(tensor);
    bytes += tensor.bytes();
  }
  return shards;
}

// Wider elements first: then each tensor is aligned without gaps, which the format does not have.
void align(std::vector<TensorDecl>& tensors) {
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const TensorDecl& t) { return dtype_bytes(t.dtype); });
}

}  // namespace

std::uint64_t TensorDecl::bytes() const {
  return static_cast<std::uint64_t>(shape.elements()) * dtype_bytes(dtype);
}

std::string safetensors_header(std::span<const TensorDecl> tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::size_t alignment) {
  Json header = Json::object();
  // Appended rather than looked up: there are thousands of names.
  auto& members = static_cast<Json::object_t::Container&>(header.get_ref<Json::object_t&>());
  if (!metadata.empty()) {
    members.emplace_back(kMetadataKey, metadata);
  }
  std::set<std::string_view> names;
  std::uint64_t end = 0;
  for (const TensorDecl& tensor : tensors) {
    check(tensor.name != kMetadataKey, ErrorCode::InvalidArgument, "a tensor cannot be named '{}'",
          tensor.name);
    check(names.insert(tensor.name).second, ErrorCode::InvalidArgument,
          "tensor '{}' is there twice", tensor.name);
    const std::uint64_t begin = std::exchange(end, end + tensor.bytes());
    members.emplace_back(tensor.name, Json{{"dtype", file_dtype_name(tensor.dtype)},
                                           {"shape", tensor.shape.dims()},
                                           {"data_offsets", {begin, end}}});
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    fail(ErrorCode::InvalidArgument, "a tensor's name or metadata is not UTF-8");
  }
  std::uint64_t length = 0;
  text.append((alignment - (sizeof(length) + text.size()) % alignment) % alignment, ' ');
  length = text.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  return out + text;
}

CheckpointWriter::CheckpointWriter(const std::filesystem::path& folder, const WeightNames& names,
                                   const std::vector<TensorDecl>& tensors,
                                   std::uint64_t shard_bytes)
    : folder_(folder), names_(names) {
  std::vector<std::vector<TensorDecl>> parts = split(tensors, shard_bytes);
  const std::string end = (names.variant.empty() ? "" : "." + names.variant) + ".safetensors";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string number =
        parts.size() == 1 ? "" : fmt::format("-{:05}-of-{:05}", i + 1, parts.size());
    add_shard(fmt::format("{}{}{}", names.stem, number, end), std::move(parts[i]));
  }
}

void CheckpointWriter::add_shard(const std::string& name, std::vector<TensorDecl> tensors) {
  align(tensors);
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  std::uint64_t offset = header.size();
  for (TensorDecl& tensor : tensors) {
    const std::uint64_t begin = std::exchange(offset, offset + tensor.bytes());
    const std::string key = tensor.name;
    const bool fresh =
        places_.try_emplace(key, Place{std::move(tensor), shards_.size(), begin}).second;
    check(fresh, ErrorCode::InvalidArgument, "tensor '{}' is there twice", key);
  }
  shards_.push_back({name, StagedFile(folder_ / name, offset)});
  shards_.back().file.write(0, std::as_bytes(std::span(header)));
  bytes_ += offset;
}

void CheckpointWriter::put(const std::string& name, const HostTensor& tensor) {
  const auto found = places_.find(name);
  check(found != places_.end(), ErrorCode::InvalidArgument, "tensor '{}' was not declared", name);
  Place& place = found->second;
  check(tensor.dtype() == place.decl.dtype && tensor.shape() == place.decl.shape,
        ErrorCode::InvalidArgument, "tensor '{}' is {}{}, but was declared as {}{}", name,
        dtype_name(tensor.dtype()), tensor.shape().str(), dtype_name(place.decl.dtype),
        place.decl.shape.str());
  check(!std::exchange(place.written, true), ErrorCode::InvalidArgument,
        "tensor '{}' is written twice", name);
  shards_[place.shard].file.write(place.offset, tensor.bytes());
}

std::string CheckpointWriter::index_text() const {
  Json map = Json::object();
  auto& members = static_cast<Json::object_t::Container&>(map.get_ref<Json::object_t&>());
  std::uint64_t total = 0;
  for (const auto& [name, place] : places_) {
    members.emplace_back(name, shards_[place.shard].name);
    total += place.decl.bytes();
  }
  const Json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

void CheckpointWriter::finish() {
  for (const auto& [name, place] : places_) {
    check(place.written, ErrorCode::InvalidArgument, "tensor '{}' was declared and not written",
          name);
  }
  for (Shard& shard : shards_) {
    shard.file.finish();
  }
  for (Shard& shard : shards_) {
    shard.file.keep();
  }
  if (shards_.size() > 1) {
    const std::string text = index_text();
    const std::string variant = names_.variant.empty() ? "" : "." + names_.variant;
    write_file_atomic(folder_ / fmt::format("{}.safetensors.index{}.json", names_.stem, variant),
                      std::as_bytes(std::span(text)));
  }
}

}  // namespace difflet::io
