// The grid of ranks that one request spans, and who belongs to which group. Pure integers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace difflet::spmd {

// Outermost first: replicas, classifier-free guidance, context (tokens), tensor (heads and widths).
enum class Axis : std::uint8_t { Dp, Cfg, Cp, Tp };
inline constexpr std::size_t kAxes = 4;

std::string_view axis_name(Axis axis) noexcept;  // "dp", "cfg", "cp", "tp"
std::optional<Axis> parse_axis(std::string_view name) noexcept;

// Ranks are numbered row-major over (dp, cfg, cp, tp).
class Mesh {
 public:
  Mesh() = default;
  // Throws InvalidArgument unless every extent is in [1, 4096].
  Mesh(std::int64_t dp, std::int64_t cfg, std::int64_t cp, std::int64_t tp);

  std::int64_t size(Axis axis) const noexcept { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t ranks() const noexcept;
  // The rank's index along `axis`.
  std::int64_t coordinate(std::int64_t rank, Axis axis) const noexcept;
  // The ranks that differ from `rank` along `axis` only, in order of their coordinate.
  std::vector<std::int64_t> group(std::int64_t rank, Axis axis) const;
  bool operator==(const Mesh&) const noexcept = default;

 private:
  std::array<std::int64_t, kAxes> sizes_{1, 1, 1, 1};
};

}  // namespace difflet::spmd
