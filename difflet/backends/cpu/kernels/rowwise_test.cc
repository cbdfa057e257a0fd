// Conversion, unary and binary functions and the gated residual at every level of this chip against
// a double-precision definition.
#include "difflet/backends/cpu/kernels/rowwise.h"

#include <algorithm>
#include <numbers>

#include "difflet/backends/cpu/kernels/rowwise_testing.h"

namespace difflet::cpu {
namespace {

INSTANTIATE_TEST_SUITE_P(Levels, Rowwise, ::testing::ValuesIn(levels()), level_suffix);

TEST_P(Rowwise, TableNamesItsLevel) { EXPECT_EQ(k_.level, GetParam()); }

// Every 16411th f32 bit pattern: all exponents, both signs, NaN and infinity.
std::vector<float> all_magnitudes() {
  std::vector<float> values;
  for (std::uint64_t u = 0; u <= 0xFFFFFFFFU; u += 16411) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(u)));
  }
  for (const double v : {0.0, -0.0, kInf, -kInf, kNan}) values.push_back(static_cast<float>(v));
  return values;
}

TEST_P(Rowwise, CopyRoundsToNearestEven) {
  const std::vector<float> x = all_magnitudes();
  std::vector<std::uint16_t> y(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  k_.unary(UnaryFn::Copy, x.data(), Elem::F32, y.data(), Elem::Bf16, n);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], bf16_bits(x[i])) << x[i];
  std::vector<float> back(x.size());
  k_.unary(UnaryFn::Copy, y.data(), Elem::Bf16, back.data(), Elem::F32, n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::uint32_t{y[i]} << 16) << x[i];
  }
  std::vector<float> same(x.size());
  k_.unary(UnaryFn::Copy, x.data(), Elem::F32, same.data(), Elem::F32, n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(same[i]), std::bit_cast<std::uint32_t>(x[i]));
  }
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

struct UnaryCase {
  UnaryFn fn;
  const char* name;
  double (*want)(double);
  Bound bound;
  double low, high;  // where the bound holds; outside it the value may have left f32
};
constexpr double kUlp = 0x1p-23;
const UnaryCase kUnaryCases[] = {
    {UnaryFn::Neg, "neg", [](double x) { return -x; }, {0, 0}, -kInf, kInf},
    {UnaryFn::Exp, "exp", [](double x) { return std::exp(x); }, {1.5e-45, 2 * kUlp}, -kInf, 88.7},
    {UnaryFn::Log, "log", [](double x) { return std::log(x); }, {0, kUlp}, 0, kInf},
    {UnaryFn::Sin, "sin", [](double x) { return std::sin(x); }, {1e-45, kUlp}, -1e30, 1e30},
    {UnaryFn::Cos, "cos", [](double x) { return std::cos(x); }, {1e-45, kUlp}, -1e30, 1e30},
    {UnaryFn::Sqrt, "sqrt", [](double x) { return std::sqrt(x); }, {0, kUlp / 2}, 0, kInf},
    {UnaryFn::Rsqrt, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, {0, kUlp}, 1e-38, kInf},
    {UnaryFn::Tanh, "tanh", [](double x) { return std::tanh(x); }, {2e-45, 2 * kUlp}, -kInf, kInf},
    {UnaryFn::Erf, "erf", [](double x) { return std::erf(x); }, {2e-45, 2 * kUlp}, -kInf, kInf},
    {UnaryFn::Abs, "abs", [](double x) { return std::abs(x); }, {0, 0}, -kInf, kInf},
    {UnaryFn::Sigmoid,
     "sigmoid",
     [](double x) { return 1 / (1 + std::exp(-x)); },
     {1.5e-38, 3 * kUlp},
     -kInf,
     kInf},
    // The relative error for negative x is that of an exponential of up to -2u.
    {UnaryFn::GeluTanh, "gelu_tanh", gelu_tanh, {1e-9, 3e-6}, -1e30, 1e12},
    {UnaryFn::GeluErf,
     "gelu_erf",
     [](double x) { return x * normal_cdf(x); },
     {1e-9, 1e-6},
     -1e30,
     1e38},
    {UnaryFn::QuickGelu,
     "quick_gelu",
     [](double x) { return x / (1 + std::exp(-1.702 * x)); },
     {1e-30, 2e-5},
     -1e30,
     1e38},
    {UnaryFn::Silu,
     "silu",
     [](double x) { return x / (1 + std::exp(-x)); },
     {1e-36, 3 * kUlp},
     -1e30,
     1e38},
    {UnaryFn::Relu, "relu", [](double x) { return x < 0 ? 0 : x; }, {0, 0}, -kInf, kInf},
    {UnaryFn::Floor, "floor", [](double x) { return std::floor(x); }, {0, 0}, -kInf, kInf},
    {UnaryFn::Copy, "copy", [](double x) { return x; }, {0, 0}, -kInf, kInf},
};

TEST_P(Rowwise, UnaryFunctionsHoldTheirErrorBoundOverAllMagnitudes) {
  const std::vector<float> x = all_magnitudes();
  std::vector<float> y(x.size());
  for (const UnaryCase& c : kUnaryCases) {
    SCOPED_TRACE(c.name);
    k_.unary(c.fn, x.data(), Elem::F32, y.data(), Elem::F32, static_cast<std::int64_t>(x.size()));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto v = static_cast<double>(x[i]);
      if (v < c.low || v > c.high) continue;
      const double want = c.want(v);
      expect_close(static_cast<double>(y[i]), want, Elem::F32, c.bound, std::to_string(x[i]));
      if (HasFatalFailure()) return;
      const double relative = std::abs(static_cast<double>(y[i]) - want) / std::abs(want);
      if (std::abs(want) > 1e-30 && relative > worst) worst = relative;
    }
    RecordProperty(c.name, std::to_string(worst / kUlp));
  }
}

TEST_P(Rowwise, UnaryLimitsMatchTorch) {
  const auto inf = static_cast<float>(kInf);
  const auto nan = static_cast<float>(kNan);
  const auto value = [&](UnaryFn fn, float x) {
    float y = 0;
    k_.unary(fn, &x, Elem::F32, &y, Elem::F32, 1);
    return y;
  };
  EXPECT_EQ(value(UnaryFn::Exp, -inf), 0.0F);
  EXPECT_EQ(value(UnaryFn::Exp, -1e30F), 0.0F);
  EXPECT_EQ(value(UnaryFn::Exp, 0.0F), 1.0F);
  EXPECT_EQ(value(UnaryFn::Exp, 88.8F), inf);
  EXPECT_EQ(value(UnaryFn::Exp, inf), inf);
  EXPECT_EQ(value(UnaryFn::Log, 0.0F), -inf);
  EXPECT_EQ(value(UnaryFn::Rsqrt, 0.0F), inf);
  EXPECT_EQ(value(UnaryFn::Sigmoid, -inf), 0.0F);
  for (const UnaryFn fn :
       {UnaryFn::GeluTanh, UnaryFn::GeluErf, UnaryFn::QuickGelu, UnaryFn::Silu}) {
    EXPECT_TRUE(std::isnan(value(fn, -inf)));  // -inf times 0
    EXPECT_EQ(value(fn, inf), inf);
    EXPECT_EQ(value(fn, -1e30F), 0.0F);
    EXPECT_EQ(value(fn, 1e30F), 1e30F);
  }
  for (const UnaryCase& c : kUnaryCases) EXPECT_TRUE(std::isnan(value(c.fn, nan))) << c.name;
  EXPECT_TRUE(std::isnan(value(UnaryFn::Sqrt, -1.0F)));
  EXPECT_TRUE(std::isnan(value(UnaryFn::Log, -1.0F)));
}

TEST_P(Rowwise, UnaryTakesEveryWidthAndType) {
  for (const std::int64_t n : kWidths) {
    for (const Elem xe : kElems) {
      for (const Elem ye : kElems) {
        for (const UnaryFn fn : {UnaryFn::Silu, UnaryFn::Sin, UnaryFn::Copy}) {
          Matrix x = Matrix::random(xe, 1, n, 1);
          Matrix y(ye, 1, n);
          k_.unary(fn, x.data(), xe, y.data(), ye, n);
          const auto want = [&](std::int64_t, std::int64_t i) {
            const double v = x.at(0, i);
            if (fn == UnaryFn::Copy) return v;
            return fn == UnaryFn::Sin ? std::sin(v) : v / (1 + std::exp(-v));
          };
          expect_matrix(y, {1e-30, 1e-6}, want);
          if (xe != ye) continue;
          k_.unary(fn, x.data(), xe, x.data(), xe, n);  // in place
          expect_matrix(x, {0, 0}, [&](std::int64_t, std::int64_t i) { return y.at(0, i); });
        }
      }
    }
  }
}

double binary_value(BinaryFn fn, double a, double b) {
  switch (fn) {
    case BinaryFn::Add:
      return a + b;
    case BinaryFn::Sub:
      return a - b;
    case BinaryFn::Mul:
      return a * b;
    case BinaryFn::Div:
      return a / b;
    case BinaryFn::Max:
      return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
    case BinaryFn::Min:
      return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
    case BinaryFn::Pow:
      return std::pow(a, b);
  }
  return kNan;
}
constexpr BinaryFn kBinaryFns[] = {BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div,
                                   BinaryFn::Max, BinaryFn::Min, BinaryFn::Pow};

TEST_P(Rowwise, BinaryBroadcastsEitherSide) {
  for (const BinaryFn fn : kBinaryFns) {
    for (int types = 0; types < 8; ++types) {
      for (int steps = 0; steps < 4; ++steps) {
        for (const std::int64_t n : {1, 3, 17, 127}) {
          Matrix a = Matrix::random(kElems[types & 1], 1, n, 1, 3, 0.5);
          Matrix b = Matrix::random(kElems[types >> 1 & 1], 1, n, 2, 2, 0.5);
          Matrix y(kElems[types >> 2], 1, n);
          k_.binary(fn, {a.data(), a.elem(), steps & 1}, {b.data(), b.elem(), steps >> 1}, y.data(),
                    y.elem(), n);
          expect_matrix(y, {1e-6, 1e-6}, [&](std::int64_t, std::int64_t i) {
            return binary_value(fn, a.at(0, (steps & 1) * i), b.at(0, (steps >> 1) * i));
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Rowwise, BinaryWorksInPlaceAndKeepsNan) {
  for (const BinaryFn fn : kBinaryFns) {
    Matrix a = Matrix::random(Elem::Bf16, 1, 100, 1, 3, 0.5);
    Matrix b = Matrix::random(Elem::Bf16, 1, 100, 2, 2, 0.5);
    a.set(0, 3, kNan);
    b.set(0, 40, kNan);
    const Matrix a0 = a;
    k_.binary(fn, {a.data(), a.elem(), 1}, {b.data(), b.elem(), 1}, a.data(), a.elem(), 100);
    expect_matrix(a, {1e-6, 1e-6}, [&](std::int64_t, std::int64_t i) {
      return binary_value(fn, a0.at(0, i), b.at(0, i));
    });
  }
  float y = 0;
  const float base = -3.0F;
  const float two = 2.0F;
  k_.binary(BinaryFn::Pow, {&base, Elem::F32, 1}, {&two, Elem::F32, 0}, &y, Elem::F32, 1);
  EXPECT_EQ(y, 9.0F);
}

TEST_P(Rowwise, GateAddsTheGatedBranch) {
  for (const std::int64_t n : kWidths) {
    for (int types = 0; types < 16; ++types) {
      Matrix x = Matrix::random(kElems[types & 1], 5, n, 1);
      Matrix z = Matrix::random(kElems[types >> 1 & 1], 5, n, 2);
      Matrix gate = Matrix::random(kElems[types >> 2 & 1], 2, n, 3);
      Matrix y(kElems[types >> 3], 5, n);
      GateArgs args{5, n, x.input(), z.input(), gate.input(), y.view(), 3};
      k_.gate_add(args, 0, 5);
      expect_matrix(y, {1e-6, 1e-6}, [&](std::int64_t r, std::int64_t i) {
        return x.at(r, i) + gate.at(r / 3, i) * z.at(r, i);
      });
      if (HasFatalFailure() || x.elem() != y.elem()) continue;
      args.y = x.view();
      k_.gate_add(args, 0, 5);
      expect_matrix(x, {0, 0}, [&](std::int64_t r, std::int64_t i) { return y.at(r, i); });
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
