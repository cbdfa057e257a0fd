#include "difflet/tensor/shape.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "difflet/base/error.h"

namespace difflet {
namespace {

// The product of the extents other than zero, bounded so that elements * 8 bytes fits int64: then no
// view of the shape, a zero extent replaced or not, overflows.
void check_product(std::span<const std::int64_t> dims) {
  constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t product = 1;
  for (const std::int64_t d : dims) {
    check(d >= 0, ErrorCode::InvalidArgument, "shape [{}] has a negative extent",
          fmt::join(dims, ", "));
    check(d <= kMaxElements / product, ErrorCode::InvalidArgument, "shape [{}] is too large",
          fmt::join(dims, ", "));
    product *= std::max<std::int64_t>(d, 1);
  }
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  check(dims.size() <= kMaxRank, ErrorCode::InvalidArgument, "rank {} is above the limit of {}",
        dims.size(), kMaxRank);
  check_product(dims);
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = dims.size();
}

std::int64_t Shape::dim(int axis) const { return dims_[this->axis(axis)]; }

std::size_t Shape::axis(int axis) const {
  const int rank = static_cast<int>(rank_);
  check(axis >= -rank && axis < rank, ErrorCode::InvalidArgument, "axis {} is out of range for {}",
        axis, str());
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

std::int64_t Shape::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t d : dims()) {
    product *= d;
  }
  return product;
}

Shape Shape::with(std::size_t axis, std::int64_t extent) const {
  check(axis < rank_, ErrorCode::InvalidArgument, "axis {} is out of range for {}", axis, str());
  auto changed = dims_;
  changed[axis] = extent;
  return Shape(std::span<const std::int64_t>(changed.data(), rank_));
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

bool Shape::operator==(const Shape& o) const noexcept {
  return std::ranges::equal(dims(), o.dims());
}

}  // namespace difflet
