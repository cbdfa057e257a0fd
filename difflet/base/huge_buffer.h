// Anonymous memory on 2 MB pages.
#pragma once

#include <cstddef>
#include <utility>

namespace difflet {

// Zero-filled, 2 MB-aligned memory that asks for transparent huge pages. Moves, does not copy.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes);  // throws ResourceExhausted
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  // Gives the pages from byte `from` on back; they hold zeros when they are read again.
  void discard(std::size_t from) noexcept;
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace difflet
