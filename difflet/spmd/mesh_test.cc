#include "difflet/spmd/mesh.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "difflet/base/testing.h"

namespace difflet::spmd {
namespace {

constexpr std::array<Axis, kAxes> kAll{Axis::Dp, Axis::Cfg, Axis::Cp, Axis::Tp};

std::vector<Mesh> small_meshes() {
  std::vector<Mesh> meshes;
  meshes.reserve(81);
  for (std::int64_t code = 0; code < 81; ++code) {
    meshes.emplace_back(1 + code % 3, 1 + code / 3 % 3, 1 + code / 9 % 3, 1 + code / 27);
  }
  return meshes;
}

TEST(Mesh, NumbersRanksRowMajor) {
  for (const Mesh& mesh : small_meshes()) {
    std::int64_t rank = 0;
    for (std::int64_t dp = 0; dp < mesh.size(Axis::Dp); ++dp) {
      for (std::int64_t cfg = 0; cfg < mesh.size(Axis::Cfg); ++cfg) {
        for (std::int64_t cp = 0; cp < mesh.size(Axis::Cp); ++cp) {
          for (std::int64_t tp = 0; tp < mesh.size(Axis::Tp); ++tp, ++rank) {
            EXPECT_EQ(mesh.coordinate(rank, Axis::Dp), dp);
            EXPECT_EQ(mesh.coordinate(rank, Axis::Cfg), cfg);
            EXPECT_EQ(mesh.coordinate(rank, Axis::Cp), cp);
            EXPECT_EQ(mesh.coordinate(rank, Axis::Tp), tp);
          }
        }
      }
    }
    EXPECT_EQ(rank, mesh.ranks());
  }
}

TEST(Mesh, AGroupDiffersAlongItsAxisOnly) {
  for (const Mesh& mesh : small_meshes()) {
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      for (const Axis axis : kAll) {
        const std::vector<std::int64_t> group = mesh.group(rank, axis);
        ASSERT_EQ(static_cast<std::int64_t>(group.size()), mesh.size(axis));
        for (std::size_t i = 0; i < group.size(); ++i) {
          EXPECT_EQ(mesh.coordinate(group[i], axis), static_cast<std::int64_t>(i));
          for (const Axis other : kAll) {
            if (other != axis) {
              EXPECT_EQ(mesh.coordinate(group[i], other), mesh.coordinate(rank, other));
            }
          }
        }
        EXPECT_EQ(std::ranges::count(group, rank), 1);
      }
    }
  }
}

TEST(Mesh, EveryMemberSeesTheSameGroup) {
  const Mesh mesh(2, 2, 3, 2);
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    for (const Axis axis : kAll) {
      for (const std::int64_t member : mesh.group(rank, axis)) {
        EXPECT_EQ(mesh.group(member, axis), mesh.group(rank, axis));
      }
    }
  }
}

TEST(Mesh, RefusesExtentsOutsideTheirRange) {
  EXPECT_ERROR(Mesh(1, 1, 0, 1), ErrorCode::InvalidArgument, "axis cp must be 1 to 4096, not 0");
  EXPECT_ERROR(Mesh(1, 1, 1, 4097), ErrorCode::InvalidArgument, "axis tp");
}

TEST(Axis, NamesRoundTrip) {
  for (const Axis axis : kAll) {
    EXPECT_EQ(parse_axis(axis_name(axis)), axis);
  }
  EXPECT_EQ(parse_axis("pp"), std::nullopt);
}

}  // namespace
}  // namespace difflet::spmd
