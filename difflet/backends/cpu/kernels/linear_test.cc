// Every linear kernel that this chip can run, and those of the amx level over emulated tiles, against a
// product in double precision.
#include "difflet/backends/cpu/kernels/linear.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/amx_emulated.h"
#include "difflet/backends/cpu/kernels/test_tensor.h"

namespace difflet::cpu {
namespace {

using testing::TestScratch;
using testing::TestTensor;

constexpr Elem kElems[] = {Elem::F32, Elem::Bf16};

std::vector<const LinearKernel*> runnable_kernels() {
  std::vector<const LinearKernel*> found;
  const LinearKernelList list = linear_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    if (list.items[i]->level <= detect_level()) found.push_back(list.items[i]);
  }
  if (detect_level() >= Level::Avx512Bf16) {
    found.push_back(&kLinearAmxEmulated);
    found.push_back(&kLinearAmxEmulatedSmall);
  }
  return found;
}

double activation(Act act, double v) {
  switch (act) {
    case Act::None:
      return v;
    case Act::GeluTanh:
      return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    case Act::GeluErf:
      return 0.5 * v * std::erfc(-v * 0.7071067811865476);
    case Act::QuickGelu:
      return v / (1 + std::exp(-1.702 * v));
    case Act::Silu:
      return v / (1 + std::exp(-v));
    case Act::Relu:
      return std::max(v, 0.0);
  }
  return 0;
}

enum class Mul { None, Row, Full };
enum class Residual { None, Apart, InPlace };

struct Case {
  std::int64_t m = 1, n = 1, k = 1;
  Elem x = Elem::F32, w = Elem::F32, y = Elem::F32;
  bool bias = false;
  Act act = Act::None;
  Mul mul = Mul::None;
  Residual residual = Residual::None;
  std::int64_t x_gap = 0, y_gap = 0;  // elements between rows
};

// Operands of a case, and the product by one kernel.
class Product {
 public:
  Product(const LinearKernel& kernel, const Case& c)
      : kernel_(kernel),
        c_(c),
        x_(TestTensor::random(c.m * (c.k + c.x_gap), c.x, 1, 1)),
        w_(TestTensor::random(c.n * c.k, c.w, 1, 2)),
        bias_(TestTensor::random(c.n, Elem::F32, 2, 3)),
        mul_(TestTensor::random(c.m * c.n, c.y, 2, 4)),
        residual_(TestTensor::random(c.m * y_stride(), c.y, 2, 5)),
        packed_(kernel.packed_bytes(desc())) {}

  LinearDesc desc() const { return {c_.n, c_.k, c_.x, c_.w, c_.y}; }
  std::int64_t y_stride() const { return c_.n + c_.y_gap; }

  bool pack(Elem src, const TestTensor& w) {
    bool finite = true;
    for (std::int64_t n = 0; n < c_.n; n += 2 * kernel_.pack_step) {
      finite &= kernel_.pack(desc(), w.data(), src, n, std::min(c_.n, n + 2 * kernel_.pack_step),
                             packed_.data());
    }
    return finite;
  }

  // Runs the tasks for `threads` threads, last first.
  TestTensor run(int threads) {
    TestTensor y = c_.residual == Residual::InPlace
                       ? residual_
                       : TestTensor::random(c_.m * y_stride(), c_.y, 2, 6);
    LinearArgs a;
    a.m = c_.m, a.n = c_.n, a.k = c_.k;
    a.x = {x_.data(), c_.k + c_.x_gap, c_.x};
    a.packed = packed_.data();
    a.bias = c_.bias ? static_cast<const float*>(bias_.data()) : nullptr;
    a.act = c_.act;
    if (c_.mul != Mul::None) a.mul = {mul_.data(), c_.mul == Mul::Row ? 0 : c_.n, c_.y};
    if (c_.residual == Residual::Apart) a.residual = {residual_.data(), y_stride(), c_.y};
    if (c_.residual == Residual::InPlace) a.residual = {y.data(), y_stride(), c_.y};
    a.y = {y.data(), y_stride(), c_.y};
    const std::int64_t tasks = kernel_.tasks(a, threads);
    TestScratch scratch(kernel_.scratch_bytes(a, threads));
    for (std::int64_t t = tasks - 1; t >= 0; --t) kernel_.run(a, t, tasks, scratch.data());
    return y;
  }

  void check(const TestTensor& y) const {
    const TestTensor untouched = TestTensor::random(c_.m * y_stride(), c_.y, 2, 6);
    for (std::int64_t i = 0; i < c_.m; ++i) {
      for (std::int64_t j = 0; j < c_.n; ++j) {
        const auto [want, slack] = reference(i, j);
        const double got = y.get(i * y_stride() + j);
        ASSERT_NEAR(got, want, slack) << kernel_.name << " row " << i << " column " << j;
      }
      for (std::int64_t j = c_.n; j < y_stride() && c_.residual != Residual::InPlace; ++j) {
        ASSERT_EQ(y.get(i * y_stride() + j), untouched.get(i * y_stride() + j));
      }
    }
  }

  const TestTensor& w() const { return w_; }

 private:
  std::pair<double, double> reference(std::int64_t i, std::int64_t j) const {
    double v = c_.bias ? bias_.get(j) : 0;
    double size = std::abs(v);
    for (std::int64_t k = 0; k < c_.k; ++k) {
      const double term = x_.get(i * (c_.k + c_.x_gap) + k) * w_.get(j * c_.k + k);
      v += term;
      size += std::abs(term);
    }
    v = activation(c_.act, v);
    if (c_.mul != Mul::None) {
      const double factor = mul_.get(c_.mul == Mul::Row ? j : i * c_.n + j);
      v *= factor;
      size *= std::abs(factor);
    }
    if (c_.residual != Residual::None) v += residual_.get(i * y_stride() + j);
    const double rounding = c_.y == Elem::F32 ? 1.2e-7 : 3.95e-3;
    return {v, 1e-6 * size + rounding * std::abs(v) + 1e-30};
  }

  const LinearKernel& kernel_;
  Case c_;
  TestTensor x_, w_, bias_, mul_, residual_;
  TestScratch packed_;
};

void check_case(const Case& c) {
  for (const LinearKernel* kernel : runnable_kernels()) {
    Product product(*kernel, c);
    if (kernel->refuse(product.desc()) != nullptr) continue;
    SCOPED_TRACE(std::string(kernel->name) + " M" + std::to_string(c.m) + " N" +
                 std::to_string(c.n) + " K" + std::to_string(c.k));
    ASSERT_TRUE(product.pack(c.w, product.w()));
    const TestTensor y = product.run(1);
    product.check(y);
    ASSERT_TRUE(y == product.run(3)) << "depends on the number of threads";
    ASSERT_TRUE(y == product.run(64)) << "depends on the number of threads";
  }
}

TEST(Linear, ListIsSortedAndCoversEveryTypeAtTheLowestLevel) {
  const LinearKernelList list = linear_kernels();
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size; ++i) {
    EXPECT_TRUE(names.insert(list.items[i]->name).second) << list.items[i]->name;
    if (i > 0) {
      EXPECT_LE(list.items[i]->level, list.items[i - 1]->level);
    }
  }
  for (const Elem x : kElems) {
    for (const Elem w : kElems) {
      for (const Elem y : kElems) {
        bool taken = false;
        for (std::size_t i = 0; i < list.size; ++i) {
          taken |= list.items[i]->level == Level::Scalar &&
                   list.items[i]->refuse({3, 5, x, w, y}) == nullptr;
        }
        EXPECT_TRUE(taken);
      }
    }
  }
}

TEST(Linear, NamesSayLevelAndWeights) {
  const LinearKernelList list = linear_kernels();
  EXPECT_STREQ(list.items[0]->name, "linear.amx.bf16");
  EXPECT_NE(list.items[0]->refuse({64, 64, Elem::F32, Elem::Bf16, Elem::F32}), nullptr);
  EXPECT_NE(list.items[0]->refuse({64, 64, Elem::Bf16, Elem::F32, Elem::F32}), nullptr);
  for (std::size_t i = 0; i < list.size; ++i) {
    const std::string name = list.items[i]->name;
    EXPECT_NE(name.find(level_name(list.items[i]->level)), std::string::npos) << name;
  }
}

TEST(Linear, OddShapesInEveryStorage) {
  const std::tuple<int, int, int> shapes[] = {
      {1, 1, 1},   {1, 64, 64},  {2, 3, 5},      {3, 17, 31},  {5, 65, 33},
      {6, 128, 2}, {7, 100, 67}, {13, 257, 130}, {28, 63, 96}, {11, 48, 129}};
  for (const auto& [m, n, k] : shapes) {
    for (const Elem x : kElems) {
      for (const Elem w : kElems) {
        for (const Elem y : kElems) check_case({m, n, k, x, w, y});
      }
    }
  }
}

TEST(Linear, SeveralChunksOfKAndBlocksOfRows) {
  for (const Elem e : kElems) {
    check_case({5, 70, 1025, e, e, e});
    check_case({4, 33, 2111, e, e, e, true});
    check_case({199, 40, 37, e, e, e, true});
    check_case({23, 600, 550, e, e, e});
  }
}

TEST(Linear, EveryEpilogue) {
  for (const Act act :
       {Act::None, Act::GeluTanh, Act::GeluErf, Act::QuickGelu, Act::Silu, Act::Relu}) {
    for (const Mul mul : {Mul::None, Mul::Row, Mul::Full}) {
      for (const Residual residual : {Residual::None, Residual::Apart, Residual::InPlace}) {
        for (const Elem e : kElems) {
          check_case({8, 75, 19, e, e, e, act != Act::Silu, act, mul, residual});
        }
      }
    }
  }
}

TEST(Linear, RowsWithGaps) {
  for (const Elem e : kElems) {
    check_case({9, 70, 40, e, e, e, true, Act::None, Mul::Row, Residual::Apart, 3, 5});
  }
}

// Few rows are read where they lie when a tile can take them so, many are packed.
TEST(Linear, RowsWhereTheyLieGiveWhatPackedOnesGive) {
  for (const Elem e : kElems) {
    for (const std::int64_t gap : {0, 2, 3}) {
      check_case({77, 130, 2112, e, e, e, false, Act::None, Mul::None, Residual::None, gap});
    }
    for (const LinearKernel* kernel : runnable_kernels()) {
      const std::int64_t few = 77;
      const std::int64_t many = 4 * few;
      const Case c{many, 130, 2112, e, e, Elem::F32};
      Product all(*kernel, c);
      if (kernel->refuse(all.desc()) != nullptr) continue;
      Case start = c;
      start.m = few;
      Product some(*kernel, start);
      ASSERT_TRUE(all.pack(e, all.w()) && some.pack(e, some.w()));
      const TestTensor y = all.run(1);
      const TestTensor first = some.run(1);
      for (std::int64_t i = 0; i < few * c.n; ++i) {
        ASSERT_EQ(y.get(i), first.get(i)) << kernel->name;
      }
    }
  }
}

TEST(Linear, PacksFromTheOtherStorage) {
  const Case c{7, 90, 45, Elem::Bf16, Elem::Bf16, Elem::F32};
  for (const LinearKernel* kernel : runnable_kernels()) {
    for (const Elem w : kElems) {
      Case stored = c;
      stored.w = w;
      Product product(*kernel, stored);
      if (kernel->refuse(product.desc()) != nullptr) continue;
      // Values that both storages hold, so that the result must be the same.
      TestTensor other(c.n * c.k, w == Elem::F32 ? Elem::Bf16 : Elem::F32);
      TestTensor same(c.n * c.k, w);
      for (std::int64_t i = 0; i < c.n * c.k; ++i) {
        const float v =
            testing::from_bf16(testing::to_bf16(static_cast<float>(product.w().get(i))));
        other.set(i, v);
        same.set(i, v);
      }
      ASSERT_TRUE(product.pack(same.elem(), same));
      const TestTensor y = product.run(1);
      ASSERT_TRUE(product.pack(other.elem(), other));
      EXPECT_TRUE(y == product.run(1)) << kernel->name;
    }
  }
}

TEST(Linear, PackReportsNanAndInf) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const LinearKernel* kernel : runnable_kernels()) {
    for (const Elem w : kElems) {
      for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
        for (const std::int64_t at : {0, 44, 45 * 89 + 44, 2000}) {
          Product product(*kernel, {7, 90, 45, Elem::Bf16, w, Elem::F32});
          if (kernel->refuse(product.desc()) != nullptr) continue;
          TestTensor weights = product.w();
          EXPECT_TRUE(product.pack(w, weights));
          weights.set(at, bad);
          EXPECT_FALSE(product.pack(w, weights)) << kernel->name << " at " << at;
        }
      }
    }
  }
}

TEST(Linear, NanStaysNan) {
  for (const LinearKernel* kernel : runnable_kernels()) {
    for (const Elem e : kElems) {
      for (const Act act :
           {Act::None, Act::GeluTanh, Act::GeluErf, Act::QuickGelu, Act::Silu, Act::Relu}) {
        const LinearDesc desc{20, 3, e, e, e};
        if (kernel->refuse(desc) != nullptr) continue;
        TestTensor x(3, e);
        x.set(1, std::numeric_limits<float>::quiet_NaN());
        const TestTensor w = TestTensor::random(60, e, 1, 1);
        TestTensor y(20, e);
        TestScratch packed(kernel->packed_bytes(desc));
        kernel->pack(desc, w.data(), e, 0, 20, packed.data());
        LinearArgs a;
        a.m = 1, a.n = 20, a.k = 3;
        a.x = {x.data(), 3, e};
        a.packed = packed.data();
        a.act = act;
        a.y = {y.data(), 20, e};
        TestScratch scratch(kernel->scratch_bytes(a, 1));
        const std::int64_t tasks = kernel->tasks(a, 1);
        for (std::int64_t t = 0; t < tasks; ++t) kernel->run(a, t, tasks, scratch.data());
        for (int j = 0; j < 20; ++j) EXPECT_TRUE(std::isnan(y.get(j))) << kernel->name;
      }
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
