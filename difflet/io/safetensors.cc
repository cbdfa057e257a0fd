#include "difflet/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/io/safetensors_names.h"
#include "difflet/io/safetensors_writer.h"

namespace difflet::io {
namespace {

// The format: https://github.com/huggingface/safetensors#format. 8 bytes header length, a JSON
// object, then the data, which the tensors cover without hole or overlap.
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;

static_assert(std::endian::native == std::endian::little);

struct FileDType {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> dtype;  // empty: its size is known, but there is no type for it here
};

constexpr std::array<FileDType, 20> kFileDTypes = {{
    {"F32", 32, DType::F32},      {"F16", 16, DType::F16},      {"BF16", 16, DType::BF16},
    {"I32", 32, DType::I32},      {"I64", 64, DType::I64},      {"BOOL", 8, DType::Bool},
    {"F64", 64, std::nullopt},    {"F8_E4M3", 8, std::nullopt}, {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt}, {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},      {"U8", 8, DType::U8},         {"I8", 8, DType::I8},
    {"U16", 16, std::nullopt},    {"I16", 16, std::nullopt},    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},
}};

// For messages: the dtypes that have a type here.
std::string supported_names() {
  std::string names;
  for (const FileDType& d : kFileDTypes) {
    if (d.dtype) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", d.name);
    }
  }
  return names;
}

// One tensor as the header describes it; offsets count from the start of the data.
struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

// Reads the header of one file; the three maps are the result. Every refusal is DataLoss and names the
// file.
class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, std::string_view origin)
      : bytes_(bytes), origin_(origin) {}

  void parse() {
    const std::string_view text = header_text();
    data_start_ = kLengthBytes + text.size();
    const Json header = parse_json(text, fmt::format("{} (header)", origin_));
    for (const auto& item : header.items()) {
      if (item.key() == kMetadataKey) {
        read_metadata(item.value());
      } else {
        raw_.push_back(read_raw(item.key(), item.value()));
      }
    }
    check_cover();
    for (const RawEntry& e : raw_) {
      accept(e);
    }
  }

  std::map<std::string, TensorEntry> entries;
  std::map<std::string, std::string> unsupported;
  std::map<std::string, std::string> metadata;

 private:
  template <typename... Args>
  void expect(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) {
      fail(ErrorCode::DataLoss, "{}: {}", origin_,
           fmt::format(format, std::forward<Args>(args)...));
    }
  }

  // The JSON between the length and the data, checked against the limit before the file's size, so
  // that a file of another kind is not called truncated.
  std::string_view header_text() const {
    expect(bytes_.size() >= kLengthBytes, "{} bytes are too few for a safetensors file",
           bytes_.size());
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    expect(length <= kMaxHeader, "header of {} bytes is above the limit of {}; not safetensors?",
           length, kMaxHeader);
    expect(length <= bytes_.size() - kLengthBytes,
           "truncated: the header ends at byte {}, the file has {} bytes", kLengthBytes + length,
           bytes_.size());
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes,
                                static_cast<std::size_t>(length));
    expect(text.starts_with('{'), "the header does not start with '{{'; not safetensors?");
    return text;
  }

  void read_metadata(const Json& value) {
    expect(value.is_object(), "{} is not an object", kMetadataKey);
    for (const auto& item : value.items()) {
      expect(item.value().is_string(), "{}.{} is not a string", kMetadataKey, item.key());
      metadata[item.key()] = item.value().get<std::string>();
    }
  }

  const Json& member(const std::string& tensor, const Json& value, const char* key) const {
    const auto found = value.find(key);
    expect(found != value.end(), "tensor '{}' has no {}", tensor, key);
    return *found;
  }

  // A list of integers from 0 to 2^64 - 1; the library keeps these and no others as unsigned.
  std::vector<std::uint64_t> read_integers(const std::string& tensor, const Json& value,
                                           const char* key) const {
    const Json& list = member(tensor, value, key);
    expect(list.is_array(), "tensor '{}': {} is not an array", tensor, key);
    std::vector<std::uint64_t> out;
    out.reserve(list.size());
    for (const Json& x : list) {
      expect(x.is_number_unsigned(), "tensor '{}': {} holds something else than integers >= 0",
             tensor, key);
      out.push_back(x.get<std::uint64_t>());
    }
    return out;
  }

  // One entry, its offsets checked against the file but not yet against other entries.
  RawEntry read_raw(const std::string& name, const Json& value) const {
    expect(value.is_object(), "tensor '{}' is not described by an object", name);
    RawEntry e;
    e.name = name;
    const Json& dtype = member(name, value, "dtype");
    expect(dtype.is_string(), "tensor '{}': dtype is not a string", name);
    e.dtype = dtype.get<std::string>();
    e.shape = read_integers(name, value, "shape");
    const auto offsets = read_integers(name, value, "data_offsets");
    expect(offsets.size() == 2, "tensor '{}': data_offsets has {} entries, not 2", name,
           offsets.size());
    e.begin = offsets[0];
    e.end = offsets[1];
    expect(e.begin <= e.end, "tensor '{}': data_offsets [{}, {}] run backwards", name, e.begin,
           e.end);
    const std::uint64_t data = bytes_.size() - data_start_;
    expect(e.end <= data, "truncated: tensor '{}' ends at byte {} of the data, the file has {}",
           name, e.end, data);
    return e;
  }

  // Sorted by place, each tensor starts where the one before ends and the last ends with the file.
  void check_cover() const {
    std::vector<const RawEntry*> order;
    order.reserve(raw_.size());
    for (const RawEntry& e : raw_) {
      order.push_back(&e);
    }
    std::ranges::sort(order, {}, [](const RawEntry* e) { return std::pair(e->begin, e->end); });
    std::uint64_t reached = 0;
    const RawEntry* last = nullptr;
    for (const RawEntry* e : order) {
      expect(e->begin >= reached, "tensors '{}' and '{}' overlap", last ? last->name : "", e->name);
      expect(e->begin == reached, "{} bytes of data before tensor '{}' belong to no tensor",
             e->begin - reached, e->name);
      reached = e->end;
      last = e;
    }
    const std::uint64_t data = bytes_.size() - data_start_;
    expect(reached == data, "{} bytes of data at the end belong to no tensor", data - reached);
  }

  // Number of elements, or nothing when it does not fit 64 bits.
  static std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& shape) {
    std::uint64_t n = 1;
    bool zero = false;
    for (const std::uint64_t d : shape) {
      zero = zero || d == 0;
      if (d != 0 && n > std::numeric_limits<std::uint64_t>::max() / d) {
        return std::nullopt;
      }
      n *= d == 0 ? 1 : d;
    }
    return zero ? 0 : n;
  }

  // Checks the size against dtype and shape and files the entry under `entries` or `unsupported`.
  void accept(const RawEntry& e) {
    const auto* const known = std::ranges::find(kFileDTypes, e.dtype, &FileDType::name);
    if (known == kFileDTypes.end()) {
      unsupported[e.name] = fmt::format("dtype '{}' is not one of {}", e.dtype, supported_names());
      return;
    }
    const std::optional<std::uint64_t> count = product(e.shape);
    constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 64;
    expect(count.has_value() && *count <= kMaxElements, "tensor '{}': shape [{}] is too large",
           e.name, fmt::join(e.shape, ", "));
    const std::uint64_t need = (*count * known->bits + 7) / 8;
    expect(need == e.end - e.begin, "tensor '{}' of {} [{}] takes {} bytes, its data has {}",
           e.name, e.dtype, fmt::join(e.shape, ", "), need, e.end - e.begin);
    if (!known->dtype) {
      unsupported[e.name] = fmt::format("dtype {} is not one of {}", e.dtype, supported_names());
    } else if (e.shape.size() > Shape::kMaxRank) {
      unsupported[e.name] =
          fmt::format("rank {} is above the limit of {}", e.shape.size(), Shape::kMaxRank);
    } else {
      entries[e.name] = {*known->dtype, to_shape(e), data_start_ + e.begin, data_start_ + e.end};
    }
  }

  // At most kMaxRank extents. A zero extent can hide others that no Shape holds.
  Shape to_shape(const RawEntry& e) const {
    std::vector<std::int64_t> dims;
    dims.reserve(e.shape.size());
    for (const std::uint64_t d : e.shape) {
      dims.push_back(std::bit_cast<std::int64_t>(d));
    }
    try {
      return Shape(dims);
    } catch (const Error& error) {
      fail(ErrorCode::DataLoss, "{}: tensor '{}': {}", origin_, e.name, error.message());
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view origin_;
  std::size_t data_start_ = 0;
  std::vector<RawEntry> raw_;
};

}  // namespace

std::string_view file_dtype_name(DType dtype) {
  const auto* const found =
      std::ranges::find(kFileDTypes, std::optional<DType>(dtype), &FileDType::dtype);
  return found->name;
}

std::map<std::string, TensorEntry> parse_safetensors_header(
    std::span<const std::byte> bytes, std::string_view origin,
    std::map<std::string, std::string>* metadata, std::map<std::string, std::string>* unsupported) {
  HeaderParser parser(bytes, origin);
  parser.parse();
  if (metadata != nullptr) {
    *metadata = std::move(parser.metadata);
  }
  if (unsupported != nullptr) {
    *unsupported = std::move(parser.unsupported);
  }
  return std::move(parser.entries);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.file_ = MappedFile::open(path);
  file.entries_ = parse_safetensors_header(file.file_->bytes(), path.string(), &file.metadata_,
                                           &file.unsupported_);
  return file;
}

const TensorEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const auto refused = unsupported_.find(name);
    check(refused == unsupported_.end(), ErrorCode::Unsupported, "{}: tensor '{}': {}",
          path().string(), name, refused == unsupported_.end() ? "" : refused->second);
    fail(ErrorCode::NotFound, "{}: there is no tensor '{}'", path().string(), name);
  }
  return found->second;
}

void SafetensorsFile::release(const std::string& name) const {
  const TensorEntry& e = entry(name);
  file_->release(file_->bytes().subspan(e.begin, e.end - e.begin));
}

HostTensor SafetensorsFile::tensor(const std::string& name) const {
  const TensorEntry& e = entry(name);
  return {e.dtype, e.shape, file_->bytes().subspan(e.begin, e.end - e.begin), file_};
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<TensorDecl, std::span<const std::byte>>> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    order.push_back({{name, tensor.dtype(), tensor.shape()}, tensor.bytes()});
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const auto& one) { return dtype_bytes(one.first.dtype); });
  std::vector<TensorDecl> decls;
  std::vector<std::span<const std::byte>> parts(1);
  decls.reserve(order.size());
  parts.reserve(order.size() + 1);
  for (auto& [decl, bytes] : order) {
    decls.push_back(std::move(decl));
    parts.push_back(bytes);
  }
  std::string header;
  try {
    header = safetensors_header(decls, metadata);
  } catch (Error& e) {
    e.add_context(fmt::format("cannot write '{}'", path.string()));
    throw;
  }
  parts[0] = std::as_bytes(std::span(header));
  write_parts_atomic(path, parts);
}

}  // namespace difflet::io
