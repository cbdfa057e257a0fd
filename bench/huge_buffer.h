// Memory on 2 MB pages, so that benchmarks do not measure the TLB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace difflet::bench {

// Zero-filled; aligned to 2 MB.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes) : mapped_(round_up(bytes) + kPage) {
    void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = p;
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    data_ = static_cast<std::byte*>(p) + (round_up(address) - address);
    size_ = round_up(bytes);
    madvise(data_, size_, MADV_HUGEPAGE);
  }
  HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~HugeBuffer() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static constexpr std::size_t round_up(std::size_t v) { return (v + kPage - 1) / kPage * kPage; }

  void* base_ = nullptr;
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace difflet::bench
