// A tensor in host memory: owned, or a read-only view of somebody's bytes (a mapped file).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "difflet/tensor/dtype.h"
#include "difflet/tensor/shape.h"

namespace difflet {

// Row-major, contiguous. Copies share the bytes; nothing writes to shared bytes.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, const Shape& shape);  // owned, zero-filled, 64-byte aligned
  // A view; `owner` keeps the bytes alive. Bytes that are not aligned for the dtype are copied.
  // Throws InvalidArgument when the size does not match.
  HostTensor(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
             std::shared_ptr<const void> owner);
  static HostTensor from(const Shape& shape, std::span<const float> values);
  static HostTensor from(const Shape& shape, std::span<const std::int32_t> values);

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  template <typename T>
  std::span<const T> as() const noexcept {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  // For filling a tensor just made; throws Internal for a view or when a copy shares the bytes.
  std::span<std::byte> mutable_bytes();
  template <typename T>
  std::span<T> mutable_as() {
    const auto b = mutable_bytes();
    return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)};
  }

  // Converts floats among each other (round to nearest even) and integers, bool included, among each
  // other. Throws InvalidArgument for any other pair and for an integer that does not fit.
  HostTensor to(DType dtype) const;
  HostTensor reshaped(const Shape& shape) const;  // same bytes
  std::vector<float> to_floats() const;           // any dtype
  // Copies the part [start, start + extent) along `axis`.
  HostTensor narrow(std::size_t axis, std::int64_t start, std::int64_t extent) const;

 private:
  DType dtype_ = DType::F32;
  Shape shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
};

}  // namespace difflet
