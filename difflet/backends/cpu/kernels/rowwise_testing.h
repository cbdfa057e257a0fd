// What the tests of the row-wise kernels share: padded matrices of either element type, bounds, and
// the list of levels of this chip.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/rowwise.h"

namespace difflet::cpu {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kCanary = 12345.0;  // rounds to 12352 in bf16; only compared with itself
inline constexpr std::int64_t kPadding = 19;
inline constexpr std::int64_t kWidths[] = {1, 3, 17, 64, 127, 3072};
inline constexpr Elem kElems[] = {Elem::F32, Elem::Bf16};

inline std::uint16_t bf16_bits(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((u | 0x400000U) >> 16);
  return static_cast<std::uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
}
inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Rows with padding behind each, which no kernel may touch.
class Matrix {
 public:
  Matrix(Elem elem, std::int64_t rows, std::int64_t width)
      : elem_(elem), rows_(rows), width_(width), stride_(width + kPadding) {
    const auto n = static_cast<std::size_t>(rows * stride_);
    f32_.assign(elem == Elem::F32 ? n : 0, static_cast<float>(kCanary));
    bf16_.assign(elem == Elem::Bf16 ? n : 0, bf16_bits(static_cast<float>(kCanary)));
  }

  static Matrix random(Elem elem, std::int64_t rows, std::int64_t width, unsigned seed,
                       double mean = 0.0, double deviation = 1.0) {
    Matrix m(elem, rows, width);
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(mean, deviation);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) m.set(r, i, normal(engine));
    }
    return m;
  }

  double at(std::int64_t r, std::int64_t i) const {
    const auto k = static_cast<std::size_t>(r * stride_ + i);
    return static_cast<double>(elem_ == Elem::F32 ? f32_[k] : bf16_value(bf16_[k]));
  }
  void set(std::int64_t r, std::int64_t i, double value) {
    const auto k = static_cast<std::size_t>(r * stride_ + i);
    if (elem_ == Elem::F32) f32_[k] = static_cast<float>(value);
    if (elem_ == Elem::Bf16) bf16_[k] = bf16_bits(static_cast<float>(value));
  }

  void* data() { return elem_ == Elem::F32 ? static_cast<void*>(f32_.data()) : bf16_.data(); }
  Rows view() { return {data(), stride_, elem_}; }
  ConstRows input() { return {data(), stride_, elem_}; }
  ConstRows one_row() { return {data(), 0, elem_}; }
  Elem elem() const { return elem_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t width() const { return width_; }
  std::int64_t stride() const { return stride_; }

  void expect_padding_untouched() const {
    const double canary =
        elem_ == Elem::F32 ? kCanary : static_cast<double>(bf16_value(bf16_bits(12345.0F)));
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t i = width_; i < stride_; ++i) ASSERT_EQ(at(r, i), canary) << r << "," << i;
    }
  }

 private:
  Elem elem_;
  std::int64_t rows_, width_, stride_;
  std::vector<float> f32_;
  std::vector<std::uint16_t> bf16_;
};

// |got - want| <= absolute + relative |want|; one bf16 rounding comes on top.
struct Bound {
  double absolute, relative;
};
inline void expect_close(double got, double want, Elem elem, Bound bound,
                         const std::string& where) {
  if (std::isnan(want) || std::isinf(want)) {
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
        << where << ": " << got << " instead of " << want;
    return;
  }
  const bool rounds = elem == Elem::Bf16 && want != 0;
  const double rounding = rounds ? std::ldexp(1.0, std::ilogb(want) - 8) : 0.0;  // half an ulp
  ASSERT_LE(std::abs(got - want), bound.absolute + bound.relative * std::abs(want) + rounding)
      << where << ": " << got << " instead of " << want;
}

template <class Want>
void expect_matrix(const Matrix& got, Bound bound, Want want) {
  for (std::int64_t r = 0; r < got.rows(); ++r) {
    for (std::int64_t i = 0; i < got.width(); ++i) {
      const std::string where = "row " + std::to_string(r) + " element " + std::to_string(i);
      expect_close(got.at(r, i), want(r, i), got.elem(), bound, where);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  got.expect_padding_untouched();
}

class Rowwise : public ::testing::TestWithParam<Level> {
 protected:
  const RowwiseKernels& k_ = rowwise_kernels(GetParam());
};

inline std::vector<Level> levels() {
  std::vector<Level> all;
  for (const Level l : {Level::Scalar, Level::Avx2, Level::Avx512, Level::Avx512Bf16}) {
    if (l <= detect_level()) all.push_back(l);
  }
  return all;
}
inline std::string level_suffix(const ::testing::TestParamInfo<Level>& test) {
  return std::string(level_name(test.param));
}

}  // namespace difflet::cpu
