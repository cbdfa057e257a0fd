#include "difflet/backends/cpu/strided.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace difflet::cpu {
namespace {

View dense(const Shape& shape) {
  return {.buffer = 0,
          .offset = 0,
          .dtype = DType::F32,
          .shape = shape,
          .strides = contiguous_strides(shape)};
}

// Buffer offsets of all elements, in row-major order of the view.
std::vector<std::int64_t> offsets(const View& v) {
  std::vector<std::int64_t> all{v.offset};
  for (std::size_t axis = 0; axis < v.shape.rank(); ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t start : all) {
      for (std::int64_t i = 0; i < v.shape[axis]; ++i) {
        next.push_back(start + i * v.strides[axis]);
      }
    }
    all = std::move(next);
  }
  return all;
}

// What a loop nest visits for one operand, in its order.
std::vector<std::int64_t> offsets(const LoopNest& nest, std::size_t operand) {
  std::vector<std::int64_t> all;
  for (const auto& block : nest.offset) {
    for (std::int64_t r = 0; r < nest.rows; ++r) {
      for (std::int64_t c = 0; c < nest.width; ++c) {
        all.push_back(block[operand] + r * nest.row_stride[operand] + c * nest.step[operand]);
      }
    }
  }
  return all;
}

using Random = std::minstd_rand;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
}

Shape random_shape(Random& random, std::size_t max_rank) {
  static constexpr std::int64_t kExtents[] = {1, 2, 3, 4, 6, 1, 2, 0};
  Dims dims(static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(max_rank))));
  for (std::int64_t& d : dims) {
    // A zero now and then only: it hides everything else.
    d = kExtents[pick(random, 0, pick(random, 0, 9) == 0 ? 7 : 6)];
  }
  return Shape(dims);
}

std::vector<std::int64_t> random_permutation(Random& random, std::size_t rank) {
  std::vector<std::int64_t> p(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    p[i] = static_cast<std::int64_t>(i);
  }
  std::shuffle(p.begin(), p.end(), random);
  return p;
}

// A view that some shape ops made of a dense tensor.
View random_view(Random& random) {
  View v = dense(random_shape(random, 5));
  for (std::int64_t steps = pick(random, 0, 3); steps > 0; --steps) {
    const std::size_t rank = v.shape.rank();
    if (rank == 0) {
      break;
    }
    if (pick(random, 0, 1) == 0) {
      v = transposed(v, random_permutation(random, rank));
      continue;
    }
    const auto axis =
        static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(rank) - 1));
    const std::int64_t extent = v.shape[axis];
    const std::int64_t start = pick(random, 0, std::max<std::int64_t>(0, extent - 1));
    const std::int64_t step = pick(random, 1, 2);
    v = sliced(v, axis, start, (extent - start + step - 1) / step, step);
  }
  return v;
}

// Another shape of as many elements: the extents merged and cut anew, ones strewn in.
Shape random_reshape(Random& random, std::int64_t elements) {
  Dims dims;
  while (elements > 1 && dims.size() < 5) {
    std::int64_t factor = pick(random, 1, std::min<std::int64_t>(elements, 8));
    while (elements % factor != 0) {
      --factor;
    }
    dims.push_back(factor);
    elements /= factor;
  }
  dims.push_back(elements);
  return Shape(dims);
}

TEST(View, ContiguousIgnoresStridesOfExtentOne) {
  View v = dense({2, 1, 3});
  EXPECT_TRUE(v.contiguous());
  v.strides[1] = 77;
  EXPECT_TRUE(v.contiguous());
  v.strides[0] = 6;
  EXPECT_FALSE(v.contiguous());
  EXPECT_TRUE(v.rows_contiguous());
}

TEST(View, ScalarIsContiguous) {
  const View v = dense({});
  EXPECT_TRUE(v.contiguous());
  EXPECT_TRUE(v.rows_contiguous());
  EXPECT_EQ(v.inner_stride(), 1);
}

TEST(View, LastAxisOfOneElementHasContiguousRows) {
  View v = dense({4, 1});
  v.strides = {5, 9};
  EXPECT_TRUE(v.rows_contiguous());
}

TEST(Reshaped, SplitsAndMergesAxesOfAStridedView) {
  // Heads cut out of a fused projection: [L, 3 * H * D], the middle third.
  const View middle = sliced(dense({5, 24}), 1, 8, 8, 1);
  const auto heads = reshaped(middle, {5, 2, 4});
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(heads->strides, (Dims{24, 4, 1}));
  EXPECT_EQ(heads->offset, 8);
  const auto back = reshaped(*heads, {1, 5, 8, 1});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(offsets(*back), offsets(middle));
}

TEST(Reshaped, RefusesWhatStridesCannotSay) {
  const View middle = sliced(dense({5, 24}), 1, 8, 8, 1);
  EXPECT_FALSE(reshaped(middle, {40}).has_value());
  EXPECT_FALSE(reshaped(middle, {8, 5}).has_value());
  EXPECT_FALSE(
      reshaped(transposed(dense({2, 3}), std::vector<std::int64_t>{1, 0}), {6}).has_value());
}

TEST(Reshaped, MergesBroadcastAxes) {
  const View v = broadcast_to(dense({1, 1, 4}), {2, 3, 4});
  const auto merged = reshaped(v, {6, 4});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(offsets(*merged), offsets(v));
}

TEST(Reshaped, OfNoElementsIsAlwaysPossible) {
  const View v = sliced(dense({4, 0, 6}), 2, 1, 3, 2);
  const auto r = reshaped(v, {0, 7});
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->shape, (Shape{0, 7}));
}

TEST(Reshaped, KeepsElementsAndOrderProperty) {
  Random random(1);
  int strided = 0;
  for (int i = 0; i < 5000; ++i) {
    const View v = random_view(random);
    const Shape shape =
        v.shape.elements() == 0 ? Shape{3, 0} : random_reshape(random, v.shape.elements());
    const auto r = reshaped(v, shape);
    if (!r) {
      ASSERT_FALSE(v.contiguous());
      continue;
    }
    strided += v.contiguous() ? 0 : 1;
    ASSERT_EQ(r->shape, shape);
    ASSERT_EQ(offsets(*r), offsets(v)) << v.shape.str() << " as " << shape.str();
    const auto back = reshaped(*r, v.shape);
    ASSERT_TRUE(back.has_value()) << v.shape.str() << " as " << shape.str();
    ASSERT_EQ(offsets(*back), offsets(v));
  }
  EXPECT_GT(strided, 500);
}

TEST(Sliced, TakesEveryStepThElement) {
  const View v = sliced(dense({3, 10}), 1, 1, 4, 3);
  EXPECT_EQ(offsets(v), (std::vector<std::int64_t>{1, 4, 7, 10, 11, 14, 17, 20, 21, 24, 27, 30}));
}

TEST(Transposed, MovesAxes) {
  const View v = transposed(dense({2, 3, 4}), std::vector<std::int64_t>{2, 0, 1});
  EXPECT_EQ(v.shape, (Shape{4, 2, 3}));
  EXPECT_EQ(v.strides, (Dims{1, 12, 4}));
}

TEST(BroadcastTo, RepeatsOnesAndAddsAxesInFront) {
  const View v = broadcast_to(dense({2, 1}), {3, 2, 4});
  EXPECT_EQ(v.strides, (Dims{0, 1, 0}));
  EXPECT_EQ(offsets(v), (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0,
                                                   1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(Collapse, MergesTheLongestSharedRun) {
  const View x = dense({2, 5, 8});
  const View y = sliced(dense({2, 5, 16}), 2, 8, 8, 1);
  const View* const one[] = {&x};
  const LoopNest whole = collapse(x.shape, one, Width::Merge);
  EXPECT_EQ(whole.width, 80);
  EXPECT_EQ(whole.rows, 1);
  const View* const both[] = {&x, &y};
  const LoopNest rows = collapse(x.shape, both, Width::Merge);
  EXPECT_EQ(rows.width, 8);
  EXPECT_EQ(rows.rows, 10);
  EXPECT_EQ(rows.row_stride, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(rows.offset, (std::vector<std::vector<std::int64_t>>{{0, 8}}));
}

TEST(Collapse, ModulationOfABatchMakesOneBlockAnItem) {
  const View x = dense({2, 5, 8});
  const View scale = broadcast_to(dense({2, 1, 8}), x.shape);
  const View* const operands[] = {&x, &scale};
  const LoopNest nest = collapse(x.shape, operands, Width::LastAxis);
  EXPECT_EQ(nest.width, 8);
  EXPECT_EQ(nest.rows, 5);
  EXPECT_EQ(nest.row_stride, (std::vector<std::int64_t>{8, 0}));
  EXPECT_EQ(nest.offset, (std::vector<std::vector<std::int64_t>>{{0, 0}, {40, 8}}));
}

TEST(Collapse, OfNoElementsHasNoBlock) {
  const View x = dense({2, 0, 8});
  const View* const operands[] = {&x};
  for (const Width width : {Width::Merge, Width::LastAxis}) {
    EXPECT_TRUE(collapse(x.shape, operands, width).offset.empty());
  }
}

TEST(Collapse, OfAScalarIsOneElement) {
  const View x = dense({});
  const View* const operands[] = {&x};
  for (const Width width : {Width::Merge, Width::LastAxis}) {
    EXPECT_EQ(offsets(collapse(x.shape, operands, width), 0), std::vector<std::int64_t>{0});
  }
}

// A view of `shape` with strides of its own: permuted storage, or broadcast axes.
View operand_of(Random& random, const Shape& shape) {
  if (pick(random, 0, 2) == 0) {
    Dims dims(shape.dims().begin(), shape.dims().end());
    for (std::int64_t& d : dims) {
      d = pick(random, 0, 2) == 0 ? 1 : d;
    }
    return broadcast_to(dense(Shape(dims)), shape);
  }
  const std::vector<std::int64_t> p = random_permutation(random, shape.rank());
  std::vector<std::int64_t> inverse(p.size());
  Dims stored(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    stored[i] = shape[static_cast<std::size_t>(p[i])];
    inverse[static_cast<std::size_t>(p[i])] = static_cast<std::int64_t>(i);
  }
  View v = transposed(dense(Shape(stored)), inverse);
  v.offset = pick(random, 0, 9);
  return v;
}

TEST(Collapse, VisitsEveryElementInOrderProperty) {
  Random random(2);
  for (int i = 0; i < 5000; ++i) {
    const Shape shape = random_shape(random, 5);
    std::vector<View> views;
    for (std::int64_t n = pick(random, 1, 3); n > 0; --n) {
      views.push_back(pick(random, 0, 2) == 0 ? dense(shape) : operand_of(random, shape));
    }
    std::vector<const View*> operands;
    operands.reserve(views.size());
    for (const View& v : views) {
      operands.push_back(&v);
    }
    for (const Width width : {Width::Merge, Width::LastAxis}) {
      const LoopNest nest = collapse(shape, operands, width);
      if (width == Width::LastAxis && shape.rank() > 0 && shape.elements() > 0) {
        ASSERT_EQ(nest.width, shape.dim(-1));
      }
      for (std::size_t o = 0; o < views.size(); ++o) {
        ASSERT_EQ(offsets(nest, o), offsets(views[o])) << shape.str();
      }
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
