#include "difflet/spmd/mesh.h"

#include "difflet/base/error.h"

namespace difflet::spmd {
namespace {

constexpr std::array<std::string_view, kAxes> kNames{"dp", "cfg", "cp", "tp"};

}  // namespace

std::string_view axis_name(Axis axis) noexcept { return kNames[static_cast<std::size_t>(axis)]; }

std::optional<Axis> parse_axis(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (kNames[i] == name) {
      return static_cast<Axis>(i);
    }
  }
  return std::nullopt;
}

Mesh::Mesh(std::int64_t dp, std::int64_t cfg, std::int64_t cp, std::int64_t tp)
    : sizes_{dp, cfg, cp, tp} {
  for (std::size_t i = 0; i < kAxes; ++i) {
    check(sizes_[i] >= 1 && sizes_[i] <= 4096, ErrorCode::InvalidArgument,
          "mesh: the size of axis {} must be 1 to 4096, not {}", kNames[i], sizes_[i]);
  }
}

std::int64_t Mesh::ranks() const noexcept { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }

std::int64_t Mesh::coordinate(std::int64_t rank, Axis axis) const noexcept {
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < kAxes; ++i) {
    inner *= sizes_[i];
  }
  return rank / inner % size(axis);
}

std::vector<std::int64_t> Mesh::group(std::int64_t rank, Axis axis) const {
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < kAxes; ++i) {
    inner *= sizes_[i];
  }
  const std::int64_t first = rank - coordinate(rank, axis) * inner;
  std::vector<std::int64_t> ranks;
  ranks.reserve(static_cast<std::size_t>(size(axis)));
  for (std::int64_t c = 0; c < size(axis); ++c) {
    ranks.push_back(first + c * inner);
  }
  return ranks;
}

}  // namespace difflet::spmd
