// Copies between strided views of one dtype.
#include <algorithm>
#include <cstring>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/scalar_walk.h"

namespace difflet::cpu {
namespace {

constexpr std::int64_t kChunkBytes = 65536;

// n elements of T, each side with its own step.
template <typename T>
void copy_run(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
              std::int64_t n) {
  const auto size = static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < n; ++i) {
    store_as(to + i * to_step * size, load_as<T>(from + i * from_step * size));
  }
}

void copy_elements(std::size_t bytes, const std::byte* from, std::int64_t from_step, std::byte* to,
                   std::int64_t to_step, std::int64_t n) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      copy_run<std::uint8_t>(from, from_step, to, to_step, n);
      return;
    case 2:
      copy_run<std::uint16_t>(from, from_step, to, to_step, n);
      return;
    case 4:
      copy_run<std::uint32_t>(from, from_step, to, to_step, n);
      return;
    default:
      copy_run<std::uint64_t>(from, from_step, to, to_step, n);
      return;
  }
}

// Whether elements that follow one another on one side lie apart on the other, where they are neighbours
// of the next row's.
bool transposes(const LoopNest& nest) {
  return nest.rows > 1 && nest.step[0] != nest.step[1] &&
         (nest.row_stride[0] == 1 || nest.row_stride[1] == 1);
}

// All rows of some columns at a time: the cache lines that one row touches serve those after it.
void copy_transposed(const Run& run, const View& from, const View& to, const LoopNest& nest) {
  constexpr std::int64_t kMinColumns = 64;
  const std::size_t bytes = dtype_bytes(to.dtype);
  const std::int64_t column_bytes = nest.rows * static_cast<std::int64_t>(bytes);
  const std::int64_t columns = std::max(kMinColumns, kChunkBytes / column_bytes);
  const std::int64_t chunks = (nest.width + columns - 1) / columns;
  const auto blocks = static_cast<std::int64_t>(nest.offset.size());
  run.threads->run(blocks * chunks, [&](std::int64_t task, int) {
    const auto& o = nest.offset[static_cast<std::size_t>(task / chunks)];
    const std::int64_t first = task % chunks * columns;
    const std::int64_t n = std::min(columns, nest.width - first);
    for (std::int64_t r = 0; r < nest.rows; ++r) {
      const auto at = [&](std::size_t side) {
        return o[side] + r * nest.row_stride[side] + first * nest.step[side];
      };
      copy_elements(bytes, element(run, from, at(0)), nest.step[0], element(run, to, at(1)),
                    nest.step[1], n);
    }
  });
}

}  // namespace

void run_copy(const Run& run, const View& from, const View& to) {
  const View* const operands[] = {&from, &to};
  const LoopNest nest = collapse(to.shape, operands, Width::Merge);
  if (transposes(nest)) {
    copy_transposed(run, from, to, nest);
    return;
  }
  const std::size_t bytes = dtype_bytes(to.dtype);
  const auto blocks = static_cast<std::int64_t>(nest.offset.size());
  const std::int64_t rows = blocks * nest.rows;
  const std::int64_t run_bytes = nest.width * static_cast<std::int64_t>(bytes);
  const std::int64_t step =
      std::max<std::int64_t>(1, kChunkBytes / std::max<std::int64_t>(1, run_bytes));
  run.threads->run((rows + step - 1) / step, [&](std::int64_t task, int) {
    for (std::int64_t i = task * step; i < std::min(rows, (task + 1) * step); ++i) {
      const auto& o = nest.offset[static_cast<std::size_t>(i / nest.rows)];
      const std::int64_t r = i % nest.rows;
      copy_elements(bytes, element(run, from, o[0] + r * nest.row_stride[0]), nest.step[0],
                    element(run, to, o[1] + r * nest.row_stride[1]), nest.step[1], nest.width);
    }
  });
}

}  // namespace difflet::cpu
