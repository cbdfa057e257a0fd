#include "difflet/pipelines/model_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/io/checkpoint.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCopied = std::uint64_t{1} << 20U;  // larger files are linked

bool is_weights(const std::string& name) {
  constexpr std::array kEndings{".safetensors", ".bin",       ".pt",         ".pth",
                                ".ckpt",        ".msgpack",   ".h5",         ".onnx",
                                ".gguf",        ".onnx_data", ".index.json", ".tflite"};
  return std::ranges::any_of(kEndings, [&](const char* end) { return name.ends_with(end); }) ||
         io::weight_variant(name).has_value();
}

// Whether a component is read from this file with that variant.
bool is_read(const std::string& name, const std::string& variant) {
  if (!is_weights(name)) {
    return true;
  }
  const auto found = io::weight_variant(name);
  return found ? *found == variant : name.ends_with(".safetensors");  // a shard
}

// Regular files of a folder, those that links lead to as well, sorted by name.
std::vector<fs::path> regular_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator item(folder, error); !error && item != fs::directory_iterator();
       item.increment(error)) {
    std::error_code absent;
    if (fs::is_regular_file(item->path(), absent)) {
      files.push_back(item->path());
    }
  }
  if (error) {
    fail_errno("read", folder, error.value());
  }
  std::ranges::sort(files);
  return files;
}

// Shards of other variants have names of their own: only those that the index lists are read.
std::set<std::string> shards_of(const fs::path& folder, const std::string& variant) {
  std::set<std::string> shards;
  for (const io::WeightFile& file : io::weight_files(variant)) {
    std::error_code absent;
    if (file.is_index && fs::is_regular_file(folder / file.name, absent)) {
      for (const auto& [tensor, shard] : io::parse_weight_index(read_json_file(folder / file.name),
                                                                (folder / file.name).string())) {
        shards.insert(shard);
      }
    }
  }
  return shards;
}

void add_component(const fs::path& folder, const fs::path& to, const std::string& variant,
                   bool weights, std::vector<CopiedFile>& files) {
  const std::set<std::string> shards =
      weights ? shards_of(folder, variant) : std::set<std::string>();
  for (const fs::path& file : regular_files(folder)) {
    const std::string name = file.filename().string();
    const bool is_shard = name.ends_with(".safetensors") && !io::weight_variant(name);
    const bool wanted = weights ? (is_shard ? shards.contains(name) : is_read(name, variant))
                                : !is_weights(name) && name != "config.json";
    if (wanted) {
      files.push_back({file, to / name, fs::file_size(file)});
    }
  }
}

std::uint64_t device_of(const fs::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_dev : 0;
}

void copy(const fs::path& from, const fs::path& to, const std::function<void()>& progress) {
  constexpr std::size_t kBlock = std::size_t{8} << 20U;
  const auto file = MappedFile::open(from);
  const std::span<const std::byte> bytes = file->bytes();
  StagedFile copy(to, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    progress();
    const auto block = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
    copy.write(at, block);
    file->release(block);
  }
  copy.keep();
}

}  // namespace

std::vector<CopiedFile> files_of_model(const fs::path& folder, const std::string& variant,
                                       const std::set<std::string, std::less<>>& without) {
  std::vector<CopiedFile> files;
  if (!has_model_index(folder)) {
    add_component(folder, "", variant, !without.contains(""), files);
    return files;
  }
  for (const fs::path& file : regular_files(folder)) {
    if (!is_weights(file.filename().string())) {
      files.push_back({file, file.filename(), fs::file_size(file)});
    }
  }
  for (const auto& [name, class_name] : read_model_index(folder).components) {
    std::error_code absent;
    if (fs::is_directory(folder / name, absent)) {
      add_component(folder / name, name, variant, !without.contains(name), files);
    }
  }
  return files;
}

std::vector<std::string> left_out_of_copy(const fs::path& folder) {
  std::set<fs::path> components;  // relative; "" is a component's own folder
  if (has_model_index(folder)) {
    for (const auto& [name, class_name] : read_model_index(folder).components) {
      components.insert(name);
    }
  }
  std::vector<std::string> left;
  const auto look_into = [&](const fs::path& below) {
    std::error_code error;
    for (fs::directory_iterator item(folder / below, error);
         !error && item != fs::directory_iterator(); item.increment(error)) {
      const fs::path path = below / item->path().filename();
      std::error_code absent;
      const bool is_folder = fs::is_directory(item->path(), absent);
      const bool hidden = is_folder && path.native().starts_with('.');
      if (!fs::is_regular_file(item->path(), absent) && !hidden &&
          !(is_folder && components.contains(path))) {
        left.push_back(path.string());
      }
    }
  };
  look_into("");
  for (const fs::path& component : components) {
    look_into(component);
  }
  std::ranges::sort(left);
  return left;
}

std::uint64_t bytes_to_copy(const std::vector<CopiedFile>& files, const fs::path& folder) {
  const std::uint64_t device = device_of(folder);
  std::uint64_t bytes = 0;
  for (const CopiedFile& file : files) {
    bytes += file.bytes <= kCopied || device_of(file.from) != device ? file.bytes : 0;
  }
  return bytes;
}

void copy_files(const std::vector<CopiedFile>& files, const fs::path& folder,
                const std::function<void()>& progress) {
  for (const CopiedFile& file : files) {
    progress();
    const fs::path to = folder / file.to;
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (error) {
      fail_errno("write", to.parent_path(), error.value());
    }
    // A link in the hub's cache names its file relative to itself: the file is linked, not the link.
    const fs::path from = fs::canonical(file.from, error);
    if (error) {
      fail_errno("read", file.from, error.value());
    }
    if (file.bytes <= kCopied || ::link(from.c_str(), to.c_str()) != 0) {
      copy(from, to, progress);
    }
  }
}

}  // namespace difflet::pipelines
