// safetensors files, mapped; every offset and shape is checked before a data byte is touched.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/file.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::io {

struct TensorEntry {
  DType dtype = DType::F32;
  Shape shape;
  std::size_t begin = 0, end = 0;  // byte range in the file
};

class SafetensorsFile {
 public:
  // Throws DataLoss (naming file, tensor and what is wrong) or NotFound. A tensor that cannot be
  // represented (dtype, rank) is listed in unsupported(), and only asking for it throws.
  static SafetensorsFile open(const std::filesystem::path& path);
  const std::map<std::string, TensorEntry>& entries() const noexcept { return entries_; }
  const std::map<std::string, std::string>& unsupported() const noexcept { return unsupported_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  const TensorEntry& entry(const std::string& name) const;  // throws NotFound, Unsupported
  HostTensor tensor(const std::string& name) const;         // a view of the mapping
  void release(const std::string& name) const;              // lets go of its mapped pages
  const std::filesystem::path& path() const noexcept { return file_->path(); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> unsupported_;
  std::map<std::string, std::string> metadata_;
};

// Parses only the header of `bytes` (the whole file); the fuzz entry. `metadata` and `unsupported`
// (tensor name -> reason) may be null.
std::map<std::string, TensorEntry> parse_safetensors_header(
    std::span<const std::byte> bytes, std::string_view origin,
    std::map<std::string, std::string>* metadata,
    std::map<std::string, std::string>* unsupported = nullptr);

// Atomic; tensors of wider elements first, so that each is aligned, then in map order. Throws
// InvalidArgument for a name or metadata that is not UTF-8, else as write_file_atomic.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace difflet::io
