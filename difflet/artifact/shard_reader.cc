#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>

#include "difflet/artifact/folder.h"
#include "difflet/artifact/shard.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/huge_buffer.h"
#include "difflet/io/safetensors.h"

namespace difflet::artifact {
namespace {

constexpr std::size_t kBlock = std::size_t{16} << 20U;  // mapped by one call
constexpr std::size_t kChunk = std::size_t{1} << 20U;   // read by one call
// More streams than cores keep a disk at work; each is long, so that the kernel reads ahead in large
// folios, which are mapped twenty times faster than single pages.
constexpr int kStreamsPerThread = 2;
constexpr std::size_t kPage = 4096;
#ifndef MADV_POPULATE_READ
constexpr int kPopulateRead = 22;  // Linux 5.14
#else
constexpr int kPopulateRead = MADV_POPULATE_READ;
#endif

// A read-only mapping of an open file.
class Mapping {
 public:
  Mapping(const ShardFile& file, std::size_t bytes) : size_(bytes) {
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
    if (at == MAP_FAILED) {
      fail_errno("map", file.path, errno);
    }
    data_ = static_cast<std::byte*>(at);
  }
  ~Mapping() { ::munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// One rank's pieces inside a mapping or a copy of the file.
class Shard final : public runtime::PackedWeights {
 public:
  explicit Shard(const ShardFile& file) : path_(file.path), owner_(file.owner) {
    struct stat info = {};
    if (::fstat(file.fd, &info) != 0) {
      fail_errno("read", file.path, errno);
    }
    check(static_cast<std::size_t>(info.st_size) == file.bytes && file.bytes > 0,
          ErrorCode::DataLoss, "'{}' has {} bytes, its manifest says {}", path_, info.st_size,
          file.bytes);
    mapping_ = std::make_unique<Mapping>(file, file.bytes);
    bytes_ = mapping_->bytes();
    std::map<std::string, std::string> unsupported;
    entries_ = io::parse_safetensors_header(bytes_, path_, nullptr, &unsupported);
    check(unsupported.empty(), ErrorCode::DataLoss, "'{}' is not a file of packed weights", path_);
    for (const auto& [name, entry] : entries_) {
      check(entry.dtype == DType::U8 && entry.begin % runtime::kPieceAlignment == 0,
            ErrorCode::DataLoss, "'{}': '{}' is not an aligned piece of packed weights", path_,
            name);
    }
  }

  std::span<const std::byte> piece(const runtime::WeightPiece& piece) const override {
    const auto found = entries_.find(piece.name);
    check(found != entries_.end(), ErrorCode::DataLoss, "'{}' has no packed weight '{}'", path_,
          piece.name);
    const std::size_t size = found->second.end - found->second.begin;
    check(size == piece.bytes, ErrorCode::DataLoss,
          "'{}': the packed weight '{}' has {} bytes, the program wants {}", path_, piece.name,
          size, piece.bytes);
    return bytes_.subspan(found->second.begin, size);
  }

  const std::map<std::string, io::TensorEntry>& entries() const noexcept { return entries_; }

  // Makes room for a copy; bytes() is that then.
  void start_copy() {
    copy_ = HugeBuffer(bytes_.size());
    bytes_ = {copy_.data(), bytes_.size()};
    mapping_.reset();
  }
  // Reads a part into the copy.
  void read(const Fd& fd, std::size_t begin, std::size_t end) const {
    read_into({copy_.data() + begin, end - begin}, fd, begin);
  }
  // Brings a part into the page cache, through memory that nobody looks at.
  void warm(const Fd& fd, std::size_t begin, std::size_t end, std::span<std::byte> memory) const {
    for (std::size_t at = begin; at < end; at += memory.size()) {
      read_into(memory.first(std::min(memory.size(), end - at)), fd, at);
    }
  }
  // Whether some pages of the part, taken as a sample, are in the page cache (or nobody can say).
  bool resident(std::size_t begin, std::size_t end) const {
    const std::size_t last = end - 1;
    for (const std::size_t at : {begin, begin + (last - begin) / 2, last}) {
      unsigned char in_memory = 0;
      if (::mincore(mapping_->data() + at / kPage * kPage, 1, &in_memory) == 0 &&
          (in_memory & 1U) == 0) {
        return false;
      }
    }
    return true;
  }
  // Brings the pages of the mapping into memory and into this process.
  void populate(std::size_t begin, std::size_t end) const {
    int result = 0;
    do {
      result = ::madvise(mapping_->data() + begin, end - begin, kPopulateRead);
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
      return;
    }
    check(errno != EFAULT && errno != EHWPOISON, ErrorCode::DataLoss,
          "'{}' became shorter, or its disk failed, while it was read", path_);
    for (std::size_t at = begin; at < end; at += kPage) {  // a kernel without it
      (void)*static_cast<const volatile std::byte*>(mapping_->data() + at);
    }
  }

 private:
  void read_into(std::span<std::byte> memory, const Fd& fd, std::size_t at) const {
    while (!memory.empty()) {
      const ssize_t n = ::pread(fd.get(), memory.data(), memory.size(), static_cast<off_t>(at));
      if (n < 0 && errno != EINTR) {
        fail_errno("read", path_, errno);
      }
      check(n != 0, ErrorCode::DataLoss, "'{}' became shorter while it was read", path_);
      const std::size_t got = n < 0 ? 0 : static_cast<std::size_t>(n);
      memory = memory.subspan(got);
      at += got;
    }
  }

  std::string path_;
  std::shared_ptr<const void> owner_;
  std::unique_ptr<Mapping> mapping_;
  HugeBuffer copy_;
  std::span<const std::byte> bytes_;
  std::map<std::string, io::TensorEntry> entries_;
};

struct Part {
  std::size_t file = 0;
  std::size_t begin = 0, end = 0;
};

constexpr std::size_t kEachBlock = std::size_t{1} << 40U;  // as a number of parts

// Each file in `count` parts of about one length, multiples of kBlock.
std::vector<Part> parts_of(std::span<const ShardFile> files, std::size_t count) {
  std::vector<Part> parts;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::size_t blocks = (files[f].bytes + kBlock - 1) / kBlock;
    const std::size_t length = (blocks + count - 1) / count * kBlock;
    for (std::size_t at = 0; at < files[f].bytes; at += length) {
      parts.push_back({f, at, std::min(at + length, files[f].bytes)});
    }
  }
  return parts;
}

// The file opened once more: the kernel reads ahead for each descriptor by itself.
Fd opened_again(const ShardFile& file) {
  Fd fd(::open(fmt::format("/proc/self/fd/{}", file.fd).c_str(), O_RDONLY | O_CLOEXEC));
  return fd ? std::move(fd) : Fd(::fcntl(file.fd, F_DUPFD_CLOEXEC, 0));
}

// One stream: its blocks in order, read if they are not in memory.
void bring(const Shard& shard, const ShardFile& file, const Part& part, ShardMode mode) {
  Fd fd;
  std::vector<std::byte> memory;
  for (std::size_t at = part.begin; at < part.end; at += kBlock) {
    const std::size_t end = std::min(at + kBlock, part.end);
    const bool there = mode == ShardMode::Mapped && shard.resident(at, end);
    if (!there && !fd) {
      fd = opened_again(file);
      memory.resize(mode == ShardMode::Mapped ? kChunk : 0);
    }
    if (mode == ShardMode::Copied) {
      shard.read(fd, at, end);
      continue;
    }
    if (!there) {
      shard.warm(fd, at, end, memory);
    }
    shard.populate(at, end);
  }
}

bool all_resident(std::span<const std::shared_ptr<Shard>> shards,
                  std::span<const ShardFile> files) {
  for (const Part& block : parts_of(files, kEachBlock)) {
    if (!shards[block.file]->resident(block.begin, block.end)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string_view shard_mode_name(ShardMode mode) noexcept {
  return mode == ShardMode::Mapped ? "mapped" : "copied";
}

std::vector<std::shared_ptr<const runtime::PackedWeights>> open_shards(
    std::span<const ShardFile> files, ShardMode mode, ThreadPool& threads, ShardReport* report) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Shard>> shards;
  for (const ShardFile& file : files) {
    shards.push_back(std::make_shared<Shard>(file));
    if (mode == ShardMode::Copied) {
      shards.back()->start_copy();
    }
  }
  const auto bring_all = [&](ThreadPool& pool, std::size_t count) {
    const std::vector<Part> parts = parts_of(files, count);
    pool.run(static_cast<std::int64_t>(parts.size()), [&](std::int64_t task, int /*thread*/) {
      const Part& part = parts[static_cast<std::size_t>(task)];
      bring(*shards[part.file], files[part.file], part, mode);
    });
  };
  if (mode == ShardMode::Mapped && all_resident(shards, files)) {
    bring_all(threads, kEachBlock);
  } else {
    ThreadPool streams(kStreamsPerThread * threads.size());
    bring_all(streams, static_cast<std::size_t>(streams.size()));
  }
  if (report != nullptr) {
    report->mode = mode;
    report->bytes = 0;
    for (const ShardFile& file : files) {
      report->bytes += file.bytes;
    }
    report->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return {shards.begin(), shards.end()};
}

std::shared_ptr<const runtime::PackedWeights> open_shard(const std::filesystem::path& path,
                                                         std::size_t bytes, ShardMode mode,
                                                         ThreadPool& threads, ShardReport* report) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    check(errno != ELOOP, ErrorCode::DataLoss, "'{}' is a symbolic link", path.string());
    fail_errno("open", path, errno);
  }
  const ShardFile file{.fd = fd.get(), .path = path.string(), .bytes = bytes};
  return open_shards({&file, 1}, mode, threads, report)[0];
}

void check_shard(const ShardFile& file, std::span<const runtime::WeightPiece> pieces) {
  const Shard shard(file);
  for (const runtime::WeightPiece& piece : pieces) {
    (void)shard.piece(piece);
  }
  check(shard.entries().size() == pieces.size(), ErrorCode::DataLoss,
        "'{}' holds {} packed weights, its manifest lists {}", file.path, shard.entries().size(),
        pieces.size());
}

}  // namespace difflet::artifact
