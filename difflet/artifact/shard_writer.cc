#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "difflet/artifact/folder.h"
#include "difflet/artifact/shard.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/huge_buffer.h"
#include "difflet/base/sha256.h"
#include "difflet/io/safetensors_writer.h"

namespace difflet::artifact {
namespace {

constexpr std::size_t kBuffers = 2;

std::string header_of(const std::vector<runtime::WeightPiece>& pieces) {
  std::vector<io::TensorDecl> tensors;
  tensors.reserve(pieces.size());
  for (const runtime::WeightPiece& piece : pieces) {
    tensors.push_back({piece.name, DType::U8, Shape{static_cast<std::int64_t>(piece.bytes)}});
  }
  return io::safetensors_header(tensors, {{"format", "difflet-packed"}}, kShardDataAlignment);
}

// Writes at rising offsets in blocks that begin at multiples of their size: the page cache then holds
// the file in large folios, which are mapped many times faster than single pages.
class BlockWriter {
 public:
  BlockWriter(const Fd& fd, const std::filesystem::path& path)
      : fd_(&fd), path_(&path), block_(kBlock) {}

  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != begin_ + used_) {
      flush();
      begin_ = offset;
    }
    while (!bytes.empty()) {
      const std::size_t room = kBlock - (begin_ + used_) % kBlock;
      if (room == kBlock && used_ == 0 && bytes.size() >= kBlock) {
        const std::size_t whole = bytes.size() / kBlock * kBlock;
        put(bytes.first(whole));
        bytes = bytes.subspan(whole);
        continue;
      }
      const std::size_t n = std::min(room, bytes.size());
      std::memcpy(block_.data() + used_, bytes.data(), n);
      used_ += n;
      bytes = bytes.subspan(n);
      if (n == room) {
        flush();
      }
    }
  }
  void flush() { put({block_.data(), std::exchange(used_, 0)}); }

 private:
  static constexpr std::size_t kBlock = std::size_t{8} << 20U;

  void put(std::span<const std::byte> bytes) {
    write_at(*fd_, *path_, begin_, bytes);
    // The disk starts now rather than at the fsync; an error shows there.
    (void)::sync_file_range(fd_->get(), static_cast<off_t>(begin_),
                            static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
    begin_ += bytes.size();
  }

  const Fd* fd_;
  const std::filesystem::path* path_;
  HugeBuffer block_;
  std::uint64_t begin_ = 0;  // in the file, of what lies in the block
  std::size_t used_ = 0;
};

}  // namespace

// Pieces go from buffer to buffer: begin() hands out a free one, end() queues it, and one thread writes
// and hashes queued ones in turn.
struct ShardWriter::Impl {
  Impl(const std::filesystem::path& file, std::vector<runtime::WeightPiece> list);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void work();
  void store(std::size_t piece, std::span<const std::byte> bytes);
  void rethrow(std::unique_lock<std::mutex>& lock);
  std::string hash_again() const;

  struct Buffer {
    HugeBuffer memory;
    std::optional<std::size_t> queued;  // the piece to be written
  };

  std::filesystem::path path;
  Fd fd;
  BlockWriter blocks{fd, path};  // of the writing thread once it runs
  std::vector<runtime::WeightPiece> pieces;
  std::vector<std::uint64_t> offsets;
  std::map<std::string_view, std::size_t> index;
  std::uint64_t total = 0;
  bool finished = false;

  std::vector<bool> begun;
  std::optional<std::size_t> open;  // the piece between begin() and end()
  std::size_t filling = 0;          // the buffer that begin() hands out next

  // Of the writing thread, in the order of the file as long as that is the order of pieces.
  Sha256 hash;
  std::size_t hashed = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::array<Buffer, kBuffers> buffers;
  std::exception_ptr error;
  bool stop = false;
  std::thread thread;
};

ShardWriter::Impl::Impl(const std::filesystem::path& file, std::vector<runtime::WeightPiece> list)
    : path(file), pieces(std::move(list)), begun(pieces.size()) {
  const std::string header = header_of(pieces);
  total = header.size();
  std::size_t largest = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    require(pieces[i].bytes % runtime::kPieceAlignment == 0, "pieces are of aligned sizes");
    require(index.emplace(pieces[i].name, i).second, "no piece is there twice");
    offsets.push_back(total);
    total += pieces[i].bytes;
    largest = std::max(largest, pieces[i].bytes);
  }
  for (Buffer& buffer : buffers) {
    buffer.memory = HugeBuffer(std::max(largest, runtime::kPieceAlignment));
  }
  fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) {
    fail_errno("write", path, errno);
  }
  try {
    // Finds out about a full disk before anything is packed, where the file system can.
    if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(total)) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS && errno != EINTR) {
      fail_errno("write", path, errno);
    }
    const auto bytes = std::as_bytes(std::span(std::string_view(header)));
    blocks.write(0, bytes);
    hash.update(bytes);
    thread = std::thread([this] { work(); });
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

ShardWriter::Impl::~Impl() {
  {
    const std::scoped_lock lock(mutex);
    stop = true;
  }
  changed.notify_all();
  thread.join();
  if (!finished) {
    ::unlink(path.c_str());
  }
}

void ShardWriter::Impl::work() {
  for (std::size_t at = 0;; at = (at + 1) % kBuffers) {
    Buffer& buffer = buffers[at];
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return buffer.queued || stop; });
    if (stop) {
      return;
    }
    const std::size_t piece = *buffer.queued;
    const bool broken = error != nullptr;
    lock.unlock();
    std::exception_ptr caught;
    try {
      if (!broken) {
        store(piece, {buffer.memory.data(), pieces[piece].bytes});
      }
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    error = caught ? caught : error;
    buffer.queued.reset();
    lock.unlock();
    changed.notify_all();
  }
}

void ShardWriter::Impl::store(std::size_t piece, std::span<const std::byte> bytes) {
  blocks.write(offsets[piece], bytes);
  if (hashed == piece) {
    hash.update(bytes);
    ++hashed;
  }
}

void ShardWriter::Impl::rethrow(std::unique_lock<std::mutex>& lock) {
  if (error) {
    const std::exception_ptr thrown = error;
    lock.unlock();
    std::rethrow_exception(thrown);
  }
}

std::string ShardWriter::Impl::hash_again() const {
  Sha256 whole;
  hash_file(fd, path, 0, total, whole);
  return whole.hex();
}

ShardWriter::ShardWriter(const std::filesystem::path& path,
                         std::vector<runtime::WeightPiece> pieces)
    : impl_(std::make_unique<Impl>(path, std::move(pieces))) {}

ShardWriter::~ShardWriter() = default;

std::span<std::byte> ShardWriter::begin(const runtime::WeightPiece& piece) {
  const auto found = impl_->index.find(piece.name);
  if (found == impl_->index.end() || impl_->begun[found->second]) {
    return {};
  }
  require(impl_->pieces[found->second].bytes == piece.bytes, "a piece has the size announced");
  Impl::Buffer& buffer = impl_->buffers[impl_->filling];
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !buffer.queued; });
  impl_->rethrow(lock);
  impl_->open = found->second;
  return {buffer.memory.data(), piece.bytes};
}

void ShardWriter::end(const runtime::WeightPiece& piece) {
  require(impl_->open && impl_->pieces[*impl_->open].name == piece.name,
          "end() follows the begin() of its piece");
  {
    std::unique_lock lock(impl_->mutex);
    impl_->rethrow(lock);
    impl_->buffers[impl_->filling].queued = impl_->open;
  }
  impl_->changed.notify_all();
  impl_->begun[*impl_->open] = true;
  impl_->open.reset();
  impl_->filling = (impl_->filling + 1) % kBuffers;
}

FileRecord ShardWriter::finish() {
  for (std::size_t i = 0; i < impl_->pieces.size(); ++i) {
    check(impl_->begun[i], ErrorCode::Internal, "the weight '{}' was not packed",
          impl_->pieces[i].name);
  }
  {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] {
      return std::ranges::none_of(impl_->buffers,
                                  [](const auto& b) { return b.queued.has_value(); });
    });
    impl_->rethrow(lock);
  }
  impl_->blocks.flush();  // nothing is queued: the thread waits
  const bool in_order = impl_->hashed == impl_->pieces.size();
  FileRecord record{.name = impl_->path.filename().string(),
                    .bytes = impl_->total,
                    .sha256 = in_order ? impl_->hash.hex() : impl_->hash_again()};
  sync_file(impl_->fd, impl_->path);
  impl_->finished = true;
  return record;
}

}  // namespace difflet::artifact
