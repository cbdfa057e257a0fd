// Copies of transposed views, whose columns are copied in several pieces.
#include <tuple>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/testing.h"

namespace difflet::cpu {
namespace {

using testing::Loaded;
using testing::Program;
using Id = graph::NodeId;

// [batch, rows, columns] -> [batch, columns, rows], compared element by element.
void check_transposed(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  Program p(dtype);
  const Id x = p.input("x", {batch, rows, columns});
  p.output(p.add(graph::Transpose{{0, 2, 1}}, {x}));
  const HostTensor in = testing::numbers(dtype, {batch, rows, columns}, 3);
  const HostTensor out = Loaded(p.graph())->run({in}).at(0).to(DType::F32);
  const HostTensor wide = in.to(DType::F32);
  const auto from = wide.as<float>();
  const auto to = out.as<float>();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t at = b * rows * columns;
        ASSERT_EQ(from[static_cast<std::size_t>(at + r * columns + c)],
                  to[static_cast<std::size_t>(at + c * rows + r)])
            << b << " " << r << " " << c;
      }
    }
  }
}

TEST(Copy, TransposesInAnyNumberOfPieces) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const auto& [batch, rows, columns] :
         {std::tuple(1, 1, 5), std::tuple(2, 3, 7), std::tuple(1, 64, 1000), std::tuple(3, 65, 130),
          std::tuple(1, 4000, 3), std::tuple(2, 700, 301)}) {
      check_transposed(dtype, batch, rows, columns);
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
