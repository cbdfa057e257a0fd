#include "difflet/io/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/json.h"

namespace difflet::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index";
constexpr std::size_t kMaxListed = 10;  // names repeated in one error

std::string dotted(const std::string& variant) { return variant.empty() ? "" : "." + variant; }

// Whether a name stays in its folder: an index comes from a download and could say "../x".
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

// The first few names, and how many more there are.
std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMaxListed);
  std::string out =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), ", "));
  return shown < names.size() ? fmt::format("{} and {} more", out, names.size() - shown) : out;
}

// What in the folder could have been meant, as a sentence; empty when nothing.
std::string advice(const fs::path& folder, const std::string& variant) {
  std::set<std::string> variants;
  std::vector<std::string> pickles;
  std::error_code error;
  for (fs::directory_iterator item(folder, error); !error && item != fs::directory_iterator();
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    const std::string extension = item->path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt") {
      pickles.push_back(name);
    } else if (const auto v = weight_variant(name); v && *v != variant) {
      variants.insert(*v);
    }
  }
  std::string out;
  for (const std::string& v : variants) {
    out += v.empty() ? "; the weights without variant are there: leave --variant out"
                     : fmt::format("; there is variant '{0}': use --variant {0}", v);
  }
  if (!pickles.empty()) {
    std::ranges::sort(pickles);
    out +=
        fmt::format("; {} cannot be read: only safetensors can, so convert first", listed(pickles));
  }
  return out;
}

std::optional<WeightFile> find_weights(const fs::path& folder, const std::string& variant) {
  for (const WeightFile& c : weight_files(variant)) {
    std::error_code error;
    if (fs::exists(folder / c.name, error)) {
      return c;
    }
  }
  return std::nullopt;
}

[[noreturn]] void fail_nothing_found(const fs::path& folder, const std::string& variant) {
  std::vector<std::string> looked;
  for (const WeightFile& c : weight_files(variant)) {
    looked.push_back(c.name);
  }
  fail(ErrorCode::NotFound, "no weights in '{}': looked for {}{}", folder.string(),
       fmt::join(looked, ", "), advice(folder, variant));
}

void check_shards_exist(const fs::path& index, const std::set<std::string>& shards) {
  std::vector<std::string> absent;
  for (const std::string& shard : shards) {
    std::error_code error;
    if (!fs::exists(index.parent_path() / shard, error)) {
      absent.push_back(shard);
    }
  }
  check(absent.empty(), ErrorCode::NotFound, "{} names {} of {} files that are absent: {}",
        index.string(), absent.size(), shards.size(), fmt::join(absent, ", "));
}

}  // namespace

// In the order in which the original libraries look: diffusers takes an index before a single file,
// transformers the other way round.
std::vector<WeightFile> weight_files(const std::string& variant) {
  check(variant.empty() || is_plain_name(variant), ErrorCode::InvalidArgument,
        "variant '{}' is not part of a file name", variant);
  const std::string v = dotted(variant);
  return {
      {fmt::format("diffusion_pytorch_model{}{}.json", kIndex, v), true},
      {fmt::format("diffusion_pytorch_model{}{}", v, kSuffix), false},
      {fmt::format("model{}{}", v, kSuffix), false},
      {fmt::format("model{}{}.json", kIndex, v), true},
  };
}

std::optional<std::string> weight_variant(const std::string& name) {
  for (const std::string_view stem : {"diffusion_pytorch_model", "model"}) {
    if (!name.starts_with(stem)) {
      continue;
    }
    const std::string rest = name.substr(stem.size());
    if (rest.starts_with(kIndex) && rest.ends_with(".json")) {
      const std::string v = rest.substr(kIndex.size(), rest.size() - kIndex.size() - 5);
      return v.empty() ? v : v.substr(1);
    }
    if (rest.starts_with('.') && rest.ends_with(kSuffix)) {
      const std::string v = rest.substr(0, rest.size() - kSuffix.size());
      return v.empty() ? v : v.substr(1);
    }
  }
  return std::nullopt;
}

std::map<std::string, std::string> parse_weight_index(const Json& index,
                                                      const std::string& origin) {
  const auto damaged = [&origin](bool ok, const std::string& what) {
    check(ok, ErrorCode::DataLoss, "{}: {}", origin, what);
  };
  damaged(index.is_object(), "the index is not an object");
  const auto found = index.find("weight_map");
  damaged(found != index.end() && found->is_object(), "there is no object weight_map");
  std::map<std::string, std::string> shards;
  for (const auto& item : found->items()) {
    damaged(item.value().is_string(), fmt::format("weight_map.{} is not a string", item.key()));
    auto shard = item.value().get<std::string>();
    damaged(is_plain_name(shard), fmt::format("tensor '{}' is in '{}', which is not the name of a "
                                              "file in this folder",
                                              item.key(), shard));
    shards.emplace(item.key(), std::move(shard));
  }
  damaged(!shards.empty(), "weight_map is empty");
  return shards;
}

// Adds the tensors of one more file. Throws DataLoss for a tensor that an earlier file has too.
void Checkpoint::add_file(SafetensorsFile file) {
  const std::size_t position = files_.size();
  files_.push_back(std::move(file));
  const auto add = [&](const std::string& name) {
    const auto [place, added] = where_.emplace(name, position);
    check(added, ErrorCode::DataLoss, "tensor '{}' is in both {} and {}", name,
          files_[place->second].path().string(), files_[position].path().string());
  };
  for (const auto& named : files_[position].entries()) {
    add(named.first);
  }
  for (const auto& named : files_[position].unsupported()) {
    add(named.first);
  }
}

Checkpoint Checkpoint::open(const fs::path& folder, const std::string& variant) {
  std::error_code error;
  check(fs::exists(folder, error), ErrorCode::NotFound, "there is no folder '{}'", folder.string());
  check(fs::is_directory(folder, error), ErrorCode::InvalidArgument, "'{}' is not a folder",
        folder.string());
  const std::optional<WeightFile> found = find_weights(folder, variant);
  if (!found) {
    fail_nothing_found(folder, variant);
  }
  const fs::path path = folder / found->name;
  Checkpoint checkpoint;
  if (!found->is_index) {
    checkpoint.add_file(SafetensorsFile::open(path));
    return checkpoint;
  }
  const std::map<std::string, std::string> index =
      parse_weight_index(read_json_file(path), path.string());
  std::set<std::string> shards;
  for (const auto& item : index) {
    shards.insert(item.second);
  }
  check_shards_exist(path, shards);
  for (const std::string& shard : shards) {
    checkpoint.add_file(SafetensorsFile::open(folder / shard));
  }
  std::vector<std::string> missing;
  for (const auto& [name, shard] : index) {
    if (!checkpoint.has(name) || checkpoint.file_of(name).filename() != shard) {
      missing.push_back(fmt::format("'{}' (in {})", name, shard));
    }
  }
  check(missing.empty(), ErrorCode::DataLoss, "{} lists {} tensors that are not there: {}",
        path.string(), missing.size(), listed(missing));
  return checkpoint;
}

const SafetensorsFile& Checkpoint::file(const std::string& name) const {
  const auto found = where_.find(name);
  check(found != where_.end(), ErrorCode::NotFound, "{}: there is no tensor '{}'",
        files_.empty() ? "empty checkpoint" : files_[0].path().parent_path().string(), name);
  return files_[found->second];
}

const TensorEntry& Checkpoint::entry(const std::string& name) const {
  return file(name).entry(name);
}

void Checkpoint::release(const std::string& name) const { file(name).release(name); }

HostTensor Checkpoint::tensor(const std::string& name) const { return file(name).tensor(name); }

const fs::path& Checkpoint::file_of(const std::string& name) const { return file(name).path(); }

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> out;
  out.reserve(where_.size());
  for (const auto& item : where_) {
    out.push_back(item.first);
  }
  return out;
}

}  // namespace difflet::io
