#include "difflet/base/huge_buffer.h"

#include <sys/mman.h>

#include <cstdint>

#include "difflet/base/error.h"

namespace difflet {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20U;

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  check(bytes < SIZE_MAX - 2 * kPage, ErrorCode::ResourceExhausted, "cannot allocate {} bytes",
        bytes);
  size_ = (bytes + kPage - 1) / kPage * kPage;
  const std::size_t reserved = size_ + kPage;
  void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(raw != MAP_FAILED, ErrorCode::ResourceExhausted, "cannot allocate {} MB of memory",
        size_ >> 20U);
  // Trim to a 2 MB-aligned range, as huge pages need.
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = (address + kPage - 1) / kPage * kPage;
  auto* base = static_cast<std::byte*>(raw);
  const std::size_t head = aligned - address;
  if (head > 0) {
    munmap(base, head);
  }
  if (reserved - head > size_) {
    munmap(base + head + size_, reserved - head - size_);
  }
  data_ = base + head;
  madvise(data_, size_, MADV_HUGEPAGE);
}

void HugeBuffer::discard(std::size_t from) noexcept {
  const std::size_t first = (from + kPage - 1) / kPage * kPage;
  if (first < size_) {
    madvise(data_ + first, size_ - first, MADV_DONTNEED);
  }
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

}  // namespace difflet
