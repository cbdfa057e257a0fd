// Every linear kernel with weights of bytes that this chip can run, and those of the amx level over emulated
// tiles, against sums in double precision and in whole numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/amx_emulated.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/kernels/test_tensor.h"

namespace difflet::cpu {
namespace {

using testing::TestScratch;
using testing::TestTensor;

constexpr Elem kElems[] = {Elem::F32, Elem::Bf16};
constexpr Products kProducts[] = {Products::Floats, Products::Bytes};

struct Case {
  std::int64_t m = 1, n = 1, k = 1;
  Elem x = Elem::F32, y = Elem::F32;
  Products products = Products::Floats;
  bool smooth = false, bias = false;
  Act act = Act::None;  // None, Relu or Silu
  bool mul = false, residual = false;
  std::int64_t x_gap = 0;  // elements between rows
};

// Operands of a case, and the product by one kernel.
class BytesProduct {
 public:
  explicit BytesProduct(const Case& c)
      : c_(c),
        x_(TestTensor::random(c.m * (c.k + c.x_gap), c.x, 3, 1)),
        w_(static_cast<std::size_t>(c.n * c.k)),
        scale_(TestTensor::random(c.n, Elem::F32, 0.01F, 2)),
        smooth_(TestTensor::random(c.k, Elem::F32, 2, 3)),
        bias_(TestTensor::random(c.n, Elem::F32, 2, 4)),
        mul_(TestTensor::random(c.n, c.y, 2, 5)),
        residual_(TestTensor::random(c.m * c.n, c.y, 2, 6)) {
    std::uint32_t state = 12345;
    for (std::int8_t& w : w_) {
      state = state * 1664525U + 1013904223U;
      w = static_cast<std::int8_t>(static_cast<int>(state >> 16U) % 255 - 127);
    }
  }

  LinearDesc desc() const { return {c_.n, c_.k, c_.x, Elem::I8, c_.y, c_.products}; }
  TestTensor& x() { return x_; }
  std::vector<std::int8_t>& w() { return w_; }

  // Runs the tasks for `threads` threads, last first.
  TestTensor run(const LinearKernel& kernel, int threads) {
    TestScratch packed(kernel.packed_bytes(desc()));
    for (std::int64_t n = 0; n < c_.n; n += kernel.pack_step) {
      EXPECT_TRUE(kernel.pack(desc(), w_.data(), Elem::I8, n, std::min(c_.n, n + kernel.pack_step),
                              packed.data()));
    }
    TestTensor y(c_.m * c_.n, c_.y);
    LinearArgs a;
    a.m = c_.m, a.n = c_.n, a.k = c_.k;
    a.x = {x_.data(), c_.k + c_.x_gap, c_.x};
    a.packed = packed.data();
    a.scale = static_cast<const float*>(scale_.data());
    if (c_.smooth) a.smooth = static_cast<const float*>(smooth_.data());
    if (c_.bias) a.bias = static_cast<const float*>(bias_.data());
    a.act = c_.act;
    if (c_.mul) a.mul = {mul_.data(), 0, c_.y};
    if (c_.residual) a.residual = {residual_.data(), c_.n, c_.y};
    a.y = {y.data(), c_.n, c_.y};
    const std::int64_t tasks = kernel.tasks(a, threads);
    TestScratch scratch(kernel.scratch_bytes(a, threads));
    for (std::int64_t t = tasks - 1; t >= 0; --t) kernel.run(a, t, tasks, scratch.data());
    return y;
  }

  void check(const TestTensor& y) const {
    for (std::int64_t i = 0; i < c_.m; ++i) {
      const std::vector<double> row = factors(i);
      for (std::int64_t j = 0; j < c_.n; ++j) {
        const auto [want, slack] = reference(row, i, j);
        ASSERT_NEAR(y.get(i * c_.n + j), want, slack) << " row " << i << " column " << j;
      }
    }
  }

 private:
  // What the weights of a column are multiplied with, and the scale of the row behind it.
  std::vector<double> factors(std::int64_t i) const {
    std::vector<double> row;
    row.reserve(static_cast<std::size_t>(c_.k) + 1);
    for (std::int64_t k = 0; k < c_.k; ++k) row.push_back(x_.get(i * (c_.k + c_.x_gap) + k));
    row.push_back(1);
    if (c_.products == Products::Floats) return row;
    float most = 0;
    for (std::int64_t k = 0; k < c_.k; ++k) {
      auto v = static_cast<float>(row[static_cast<std::size_t>(k)]);
      if (c_.smooth) v *= static_cast<float>(smooth_.get(k));
      row[static_cast<std::size_t>(k)] = static_cast<double>(v);
      most = std::max(most, std::abs(v));
    }
    const float inverse = 127.0F / std::max(most, 1e-30F);
    for (double& v : row) {
      v = static_cast<double>(std::nearbyint(static_cast<float>(v) * inverse));
      EXPECT_TRUE(std::abs(v) <= 127 || &v == &row.back()) << v;
    }
    row.back() = static_cast<double>(most * static_cast<float>(1.0 / 127));
    return row;
  }

  std::pair<double, double> reference(const std::vector<double>& row, std::int64_t i,
                                      std::int64_t j) const {
    double v = 0;
    double size = 0;
    for (std::int64_t k = 0; k < c_.k; ++k) {
      const double term = row[static_cast<std::size_t>(k)] *
                          static_cast<double>(w_[static_cast<std::size_t>(j * c_.k + k)]);
      v += term;
      size += std::abs(term);
    }
    if (c_.products == Products::Bytes) size = std::abs(v);  // whole numbers are added exactly
    v *= row.back() * scale_.get(j);
    size *= row.back() * std::abs(scale_.get(j));
    if (c_.bias) v += bias_.get(j), size += std::abs(bias_.get(j));
    if (c_.act == Act::Relu) v = std::max(v, 0.0);
    if (c_.act == Act::Silu) v = v / (1 + std::exp(-v));
    if (c_.mul) v *= mul_.get(j), size *= std::abs(mul_.get(j));
    if (c_.residual) v += residual_.get(i * c_.n + j);
    const double rounding = c_.y == Elem::F32 ? 1.2e-7 : 3.95e-3;
    const double sums = 1e-6 + 2e-9 * static_cast<double>(c_.k);
    return {v, sums * size + rounding * std::abs(v) + 1e-30};
  }

  Case c_;
  TestTensor x_;
  std::vector<std::int8_t> w_;
  TestTensor scale_, smooth_, bias_, mul_, residual_;
};

std::vector<const LinearKernel*> kernels_for(const LinearDesc& desc) {
  std::vector<const LinearKernel*> found;
  const LinearKernelList list = linear_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    if (list.items[i]->level <= detect_level() && list.items[i]->refuse(desc) == nullptr) {
      found.push_back(list.items[i]);
    }
  }
  for (const LinearKernel* kernel : {&kLinearAmxW8a16Emulated, &kLinearAmxW8a16EmulatedSmall,
                                     &kLinearAmxW8a8Emulated, &kLinearAmxW8a8EmulatedSmall}) {
    if (detect_level() >= Level::Avx512Bf16 && kernel->refuse(desc) == nullptr) {
      found.push_back(kernel);
    }
  }
  return found;
}

void check_product(BytesProduct& product) {
  const auto kernels = kernels_for(product.desc());
  ASSERT_FALSE(kernels.empty());
  for (const LinearKernel* kernel : kernels) {
    const LinearDesc d = product.desc();
    SCOPED_TRACE(std::string(kernel->name) + " N" + std::to_string(d.n) + " K" +
                 std::to_string(d.k));
    const TestTensor y = product.run(*kernel, 1);
    product.check(y);
    ASSERT_TRUE(y == product.run(*kernel, 3)) << "depends on the number of threads";
    ASSERT_TRUE(y == product.run(*kernel, 64)) << "depends on the number of threads";
  }
}

void check_case(const Case& c) {
  BytesProduct product(c);
  check_product(product);
}

TEST(LinearBytes, EveryLevelHasBothKindsOfProducts) {
  const LinearKernelList list = linear_kernels();
  for (const Level level : {Level::Scalar, Level::Avx2, Level::Avx512}) {
    for (const Products products : kProducts) {
      for (const Elem x : kElems) {
        int taken = 0;
        for (std::size_t i = 0; i < list.size; ++i) {
          const LinearKernel& k = *list.items[i];
          taken += k.level == level && k.refuse({3, 5, x, Elem::I8, x, products}) == nullptr;
        }
        EXPECT_EQ(taken, 1) << level_name(level);
      }
    }
  }
}

TEST(LinearBytes, TilesComeFirstWhereTheyCan) {
  const auto first = [](Elem x, Products products) {
    const LinearKernelList list = linear_kernels();
    std::size_t i = 0;
    while (list.items[i]->refuse({3, 5, x, Elem::I8, x, products}) != nullptr) ++i;
    return list.items[i];
  };
  EXPECT_STREQ(first(Elem::Bf16, Products::Floats)->name, "linear.amx.w8a16");
  EXPECT_NE(first(Elem::F32, Products::Floats)->level, Level::Amx);
  for (const Elem x : kElems) EXPECT_STREQ(first(x, Products::Bytes)->name, "linear.amx.w8a8");
}

TEST(LinearBytes, TakeOneByteAWeight) {
  for (const Products products : kProducts) {
    const LinearDesc d{3072, 12288, Elem::Bf16, Elem::I8, Elem::Bf16, products};
    for (const LinearKernel* kernel : kernels_for(d)) {
      EXPECT_EQ(kernel->packed_bytes(d), std::size_t{3072} * 12288) << kernel->name;
    }
  }
}

TEST(LinearBytes, RefuseWhatTheyCannotMultiply) {
  for (const Elem w : kElems) {
    EXPECT_TRUE(kernels_for({3, 5, Elem::Bf16, w, Elem::Bf16, Products::Bytes}).empty());
  }
  const std::int64_t most = std::int64_t{1} << 17U;
  for (const std::int64_t k : {most, most + 1}) {
    EXPECT_EQ(kernels_for({3, k, Elem::Bf16, Elem::I8, Elem::Bf16, Products::Bytes}).empty(),
              k > most);
    EXPECT_FALSE(kernels_for({3, k, Elem::Bf16, Elem::I8, Elem::Bf16}).empty());
  }
}

TEST(LinearBytes, OddShapes) {
  const std::tuple<int, int, int> shapes[] = {
      {1, 1, 1}, {1, 64, 64},  {2, 3, 5},    {3, 17, 31},    {4, 65, 33},  {5, 128, 2},
      {6, 9, 3}, {7, 100, 67}, {8, 66, 254}, {13, 257, 130}, {28, 63, 96}, {11, 48, 129}};
  for (const auto& [m, n, k] : shapes) {
    for (const Elem x : kElems) {
      for (const Elem y : kElems) {
        for (const Products products : kProducts) check_case({m, n, k, x, y, products});
        check_case({m, n, k, x, y, Products::Bytes, true});
      }
    }
  }
}

TEST(LinearBytes, SeveralChunksOfKAndBlocksOfRows) {
  for (const Elem e : kElems) {
    for (const Products products : kProducts) {
      check_case({4, 33, 4223, e, e, products, false, true});
      check_case({7, 70, 5131, e, e, products});
      check_case({391, 40, 37, e, e, products, false, true});
      check_case({23, 600, 1550, e, e, products});
      check_case({100, 150, 800, e, e, products, products == Products::Bytes, true});
    }
  }
  for (const Products products : kProducts) {
    check_case({257, 33, 3300, Elem::Bf16, Elem::Bf16, products});
  }
}

TEST(LinearBytes, Epilogues) {
  for (const Act act : {Act::None, Act::Relu, Act::Silu}) {
    for (const bool mul : {false, true}) {
      for (const bool residual : {false, true}) {
        for (const Elem e : kElems) {
          for (const Products products : kProducts) {
            const bool smooth = products == Products::Bytes && mul;
            check_case({8, 75, 19, e, e, products, smooth, residual, act, mul, residual, 3});
          }
        }
      }
    }
  }
}

// The products that saturate narrower sums, the rows that have no scale, and magnitudes at either end.
TEST(LinearBytes, ExtremeValues) {
  for (const Elem e : kElems) {
    for (const Products products : kProducts) {
      BytesProduct product({8, 70, 2500, e, e, products});
      std::fill(product.w().begin(), product.w().begin() + std::ptrdiff_t{35} * 2500,
                std::int8_t{127});
      std::fill(product.w().begin() + std::ptrdiff_t{35} * 2500, product.w().end(),
                std::int8_t{-127});
      for (std::int64_t k = 0; k < 2500; ++k) {
        product.x().set(k, 1);
        product.x().set(2500 + k, -1);
        product.x().set(2 * 2500 + k, 0);
        product.x().set(3 * 2500 + k, k == 1249 ? 5.0F : 0.0F);
        product.x().set(4 * 2500 + k, k == 2499 ? -1e30F : 1e26F * static_cast<float>(k));
        product.x().set(5 * 2500 + k, k % 2 == 0 ? 1e-20F : -1e-22F * static_cast<float>(k % 90));
        product.x().set(6 * 2500 + k, k == 7 ? 127.0F : static_cast<float>(k % 253 - 126) / 2);
      }
      check_product(product);
    }
  }
}

TEST(LinearBytes, OneRowThatIsNotFiniteGivesNanThereOnly) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const Elem e : kElems) {
      for (const std::int64_t at : {0, 40, 66}) {
        BytesProduct product({5, 70, 67, e, e, Products::Bytes});
        BytesProduct clean({5, 70, 67, e, e, Products::Bytes});
        product.x().set(2 * 67 + at, bad);
        for (const LinearKernel* kernel : kernels_for(product.desc())) {
          const TestTensor y = product.run(*kernel, 2);
          const TestTensor want = clean.run(*kernel, 2);
          for (std::int64_t i = 0; i < 5; ++i) {
            for (std::int64_t j = 0; j < 70; ++j) {
              const double v = y.get(i * 70 + j);
              if (i == 2) {
                ASSERT_TRUE(std::isnan(v)) << kernel->name;
              } else {
                ASSERT_EQ(v, want.get(i * 70 + j)) << kernel->name;
              }
            }
          }
        }
      }
    }
  }
}

// Sums of bytes are exact and rows are quantised in the same steps everywhere.
TEST(LinearBytes, EveryLevelGivesTheSameBits) {
  for (const Elem e : kElems) {
    for (const bool smooth : {false, true}) {
      BytesProduct product({37, 130, 771, e, e, Products::Bytes, smooth});
      const auto kernels = kernels_for(product.desc());
      const TestTensor first = product.run(*kernels.front(), 1);
      for (const LinearKernel* kernel : kernels) {
        EXPECT_TRUE(first == product.run(*kernel, 2)) << kernel->name;
      }
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
