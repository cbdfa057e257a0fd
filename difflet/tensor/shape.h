// Tensor shapes: up to eight extents, row-major.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace difflet {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(
      std::span<const std::int64_t> dims);  // throws InvalidArgument: rank, negative, overflow

  std::size_t rank() const noexcept { return rank_; }
  std::int64_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  // Negative axes count from the end. Throws InvalidArgument when out of range.
  std::int64_t dim(int axis) const;
  std::size_t axis(int axis) const;
  std::span<const std::int64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  std::int64_t elements() const noexcept;  // 1 for a scalar; never overflows (checked)
  Shape with(std::size_t axis, std::int64_t extent) const;
  std::string str() const;  // "[2, 3]"
  bool operator==(const Shape& o) const noexcept;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
};

}  // namespace difflet
