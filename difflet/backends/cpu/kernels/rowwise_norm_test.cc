// Norms, softmax, rotary embedding and group norm at every level of this chip against a
// double-precision definition.
#include <algorithm>

#include "difflet/backends/cpu/kernels/rowwise_testing.h"

namespace difflet::cpu {
namespace {

using RowwiseNorm = Rowwise;
INSTANTIATE_TEST_SUITE_P(Levels, RowwiseNorm, ::testing::ValuesIn(levels()), level_suffix);

// Element i of norm(row r) before the affine part.
std::vector<double> normed_row(const Matrix& x, std::int64_t r, double eps, bool centered) {
  const auto n = static_cast<double>(x.width());
  double mean = 0;
  for (std::int64_t i = 0; i < x.width(); ++i) mean += centered ? x.at(r, i) / n : 0.0;
  double variance = 0;
  for (std::int64_t i = 0; i < x.width(); ++i) variance += std::pow(x.at(r, i) - mean, 2) / n;
  std::vector<double> y;
  y.reserve(static_cast<std::size_t>(x.width()));
  for (std::int64_t i = 0; i < x.width(); ++i) {
    y.push_back((x.at(r, i) - mean) / std::sqrt(variance + eps));
  }
  return y;
}

TEST_P(RowwiseNorm, NormsWithAffineAndModulation) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t n : kWidths) {
    for (int mask = 0; mask < 64; ++mask) {  // x, y, operand types; affine; modulation; layer/rms
      const Elem oe = kElems[mask >> 2 & 1];
      const bool affine = (mask & 8) != 0;
      const bool modulated = (mask & 16) != 0;
      const bool layer = (mask & 32) != 0;
      Matrix x = Matrix::random(kElems[mask & 1], kRows, n, 1, 0.7, 2);
      Matrix y(kElems[mask >> 1 & 1], kRows, n);
      Matrix w = Matrix::random(oe, 1, n, 2, 1, 0.2);
      Matrix b = Matrix::random(oe, 1, n, 3);
      Matrix scale = Matrix::random(oe, 3, n, 4);
      Matrix shift = Matrix::random(oe, 3, n, 5);
      NormArgs args{kRows, n, x.input(), y.view(), {}, {}, {}, {}, 2, 1e-6F};
      if (affine) args.weight = w.one_row(), args.bias = b.one_row();
      if (modulated) args.scale = scale.input(), args.shift = shift.input();
      std::vector<std::vector<double>> rows;
      rows.reserve(kRows);
      for (std::int64_t r = 0; r < kRows; ++r) rows.push_back(normed_row(x, r, 1e-6, layer));
      const auto want = [&](std::int64_t r, std::int64_t i) {
        double v = rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
        if (affine) v = v * w.at(0, i) + b.at(0, i);
        return modulated ? v * (1 + scale.at(r / 2, i)) + shift.at(r / 2, i) : v;
      };
      const auto kernel = layer ? k_.layer_norm : k_.rms_norm;
      kernel(args, 0, 2);
      kernel(args, 2, kRows);
      expect_matrix(y, {4e-6, 2e-6}, want);
      if (HasFatalFailure()) return;
      if (x.elem() != y.elem()) continue;
      args.y = x.view();
      kernel(args, 0, kRows);
      expect_matrix(x, {0, 0}, [&](std::int64_t r, std::int64_t i) { return y.at(r, i); });
    }
  }
}

TEST_P(RowwiseNorm, LayerNormKeepsDigitsUnderALargeMean) {
  Matrix x = Matrix::random(Elem::F32, 2, 3072, 1, 1000.0, 1.0);
  Matrix y(Elem::F32, 2, 3072);
  k_.layer_norm({2, 3072, x.input(), y.view(), {}, {}, {}, {}, 1, 1e-6F}, 0, 2);
  for (std::int64_t r = 0; r < 2; ++r) {
    const std::vector<double> want = normed_row(x, r, 1e-6, true);
    for (std::int64_t i = 0; i < 3072; ++i) {
      ASSERT_NEAR(y.at(r, i), want[static_cast<std::size_t>(i)], 7e-5);  // half an ulp of 1000
    }
  }
}

TEST_P(RowwiseNorm, NormsOfBadRowsAreNanAndStayInTheirRow) {
  Matrix x = Matrix::random(Elem::F32, 3, 70, 1);
  x.set(1, 69, kInf);
  Matrix y(Elem::F32, 3, 70);
  k_.layer_norm({3, 70, x.input(), y.view(), {}, {}, {}, {}, 1, 1e-6F}, 0, 3);
  for (std::int64_t i = 0; i < 70; ++i) {
    EXPECT_TRUE(std::isnan(y.at(1, i)));
    EXPECT_TRUE(std::isfinite(y.at(0, i)) && std::isfinite(y.at(2, i)));
  }
}

TEST_P(RowwiseNorm, SoftmaxIsStableAndKnowsMaskedEntries) {
  for (const std::int64_t n : kWidths) {
    for (int types = 0; types < 4; ++types) {
      Matrix x = Matrix::random(kElems[types & 1], 4, n, 1, 80, 5);
      Matrix y(kElems[types >> 1], 4, n);
      for (std::int64_t i = 0; i < n; ++i) {
        if (i % 3 != 0) x.set(1, i, -kInf);
        x.set(2, i, -kInf);
      }
      x.set(3, n - 1, kNan);
      double largest[4];
      double total[4];
      for (std::int64_t r = 0; r < 4; ++r) {
        largest[r] = -kInf;
        total[r] = 0;
        for (std::int64_t j = 0; j < n; ++j) largest[r] = std::max(largest[r], x.at(r, j));
        for (std::int64_t j = 0; j < n; ++j) total[r] += std::exp(x.at(r, j) - largest[r]);
      }
      k_.softmax(x.input(), y.view(), n, 0, 4);
      expect_matrix(y, {1e-9, 3e-6}, [&](std::int64_t r, std::int64_t i) {
        return std::exp(x.at(r, i) - largest[r]) / total[r];
      });
      if (HasFatalFailure()) return;
      if (x.elem() != y.elem()) continue;
      k_.softmax(x.input(), x.view(), n, 0, 4);
      expect_matrix(x, {0, 0}, [&](std::int64_t r, std::int64_t i) { return y.at(r, i); });
    }
  }
}

struct RopeCase {
  RopePairs pairs;
  bool normed, turned;
};

// The definition on one head, x already as numbers.
std::vector<double> rope_head(std::vector<double> x, const RopeCase& c, const Matrix& weight,
                              const float* cos, const float* sin, double eps) {
  const std::size_t n = x.size();
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  for (std::size_t i = 0; i < n && c.normed; ++i) {
    x[i] *= rstd * weight.at(0, static_cast<std::int64_t>(i));
  }
  std::vector<double> y = x;
  for (std::size_t i = 0; i < n / 2 && c.turned; ++i) {
    const std::size_t first = c.pairs == RopePairs::Interleaved ? 2 * i : i;
    const std::size_t second = c.pairs == RopePairs::Interleaved ? 2 * i + 1 : i + n / 2;
    y[first] = x[first] * static_cast<double>(cos[i]) - x[second] * static_cast<double>(sin[i]);
    y[second] = x[second] * static_cast<double>(cos[i]) + x[first] * static_cast<double>(sin[i]);
  }
  return y;
}

// Two batch items of four tokens of three heads, inside wider rows of x.
void check_rope(const RowwiseKernels& k, std::int64_t width, int types, const RopeCase& c) {
  constexpr std::int64_t kTokens = 4;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kRows = 2 * kTokens * kHeads;
  Matrix x = Matrix::random(kElems[types & 1], 2 * kTokens, kHeads * width, 1);
  Matrix y(kElems[types >> 1 & 1], 2 * kTokens, kHeads * width);
  Matrix weight = Matrix::random(kElems[types >> 2], 1, width, 2);
  std::vector<float> cos;
  std::vector<float> sin;
  for (std::int64_t i = 0; i < kTokens * (width / 2); ++i) {
    cos.push_back(std::cos(0.1F * static_cast<float>(i)));
    sin.push_back(std::sin(0.1F * static_cast<float>(i)));
  }
  RopeArgs args;
  args.rows = kRows;
  args.width = width;
  args.heads = kHeads;
  args.tokens = kTokens;
  args.x = {x.data(), width, x.elem()};
  args.y = {y.data(), width, y.elem()};
  args.x_token = x.stride();
  args.y_token = y.stride();
  args.pairs = c.pairs;
  if (c.turned) args.cos = cos.data(), args.sin = sin.data();
  if (c.normed) args.norm_weight = weight.one_row();
  std::vector<std::vector<double>> rows;
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<double> head;
    head.reserve(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < width; ++i) {
      head.push_back(x.at(r / kHeads, r % kHeads * width + i));
    }
    const std::int64_t angle = r / kHeads % kTokens * (width / 2);
    rows.push_back(rope_head(head, c, weight, cos.data() + angle, sin.data() + angle, 1e-6));
  }
  k.rope(args, 0, 5);
  k.rope(args, 5, kRows);
  expect_matrix(y, {2e-6, 1e-6}, [&](std::int64_t token, std::int64_t i) {
    const auto row = static_cast<std::size_t>(token * kHeads + i / width);
    return rows[row][static_cast<std::size_t>(i % width)];
  });
  if (x.elem() != y.elem()) return;
  args.y = {x.data(), width, x.elem()};
  args.y_token = args.x_token;
  k.rope(args, 0, kRows);
  expect_matrix(x, {0, 0}, [&](std::int64_t r, std::int64_t i) { return y.at(r, i); });
}

TEST_P(RowwiseNorm, RopeTurnsPairsAfterAnOptionalNorm) {
  for (const std::int64_t width : {2, 6, 10, 16, 64, 66, 120, 128}) {
    for (int types = 0; types < 8; ++types) {
      for (const RopePairs pairs : {RopePairs::Interleaved, RopePairs::Half}) {
        for (const bool normed : {false, true}) {
          check_rope(k_, width, types, {pairs, normed, true});
          check_rope(k_, width, types, {pairs, normed, false});
          if (HasFatalFailure()) FAIL() << "width " << width << " types " << types;
        }
      }
    }
  }
}

struct GroupCase {
  std::int64_t pixels, channels, groups;
  Act act;
  bool affine;
};

double group_norm_value(const Matrix& x, const GroupCase& c, std::int64_t row, std::int64_t channel,
                        double weight, double bias) {
  const std::int64_t per_group = c.channels / c.groups;
  const std::int64_t c0 = channel / per_group * per_group;
  const std::int64_t p0 = row / c.pixels * c.pixels;
  const auto n = static_cast<double>(c.pixels * per_group);
  double mean = 0;
  double variance = 0;
  for (std::int64_t p = p0; p < p0 + c.pixels; ++p) {
    for (std::int64_t i = c0; i < c0 + per_group; ++i) mean += x.at(p, i) / n;
  }
  for (std::int64_t p = p0; p < p0 + c.pixels; ++p) {
    for (std::int64_t i = c0; i < c0 + per_group; ++i)
      variance += std::pow(x.at(p, i) - mean, 2) / n;
  }
  const double v = (x.at(row, channel) - mean) / std::sqrt(variance + 1e-6) * weight + bias;
  return c.act == Act::Silu ? v / (1 + std::exp(-v)) : v;
}

void check_group_norm(const RowwiseKernels& k, const GroupCase& c, int types) {
  Matrix x = Matrix::random(kElems[types & 1], 2 * c.pixels, c.channels, 1, 0.5, 2);
  Matrix y(kElems[types >> 1], 2 * c.pixels, c.channels);
  std::vector<float> weight;
  std::vector<float> bias;
  for (std::int64_t i = 0; i < c.channels; ++i) {
    weight.push_back(1.0F + 0.01F * static_cast<float>(i % 7));
    bias.push_back(0.1F * static_cast<float>(i % 5));
  }
  GroupNormArgs args{2,        c.pixels, c.channels, c.groups, x.input(),
                     y.view(), nullptr,  nullptr,    1e-6F,    c.act};
  if (c.affine) args.weight = weight.data(), args.bias = bias.data();
  for (std::int64_t b = 0; b < 2; ++b) {
    std::vector<double> sums(static_cast<std::size_t>(2 * c.groups));
    std::vector<float> mean_rstd(sums.size());
    const std::int64_t cut = c.pixels / 3;
    k.group_norm_sums(args, b, 0, cut, sums.data());
    k.group_norm_sums(args, b, cut, c.pixels, sums.data());
    group_norm_finish(args, sums.data(), mean_rstd.data());
    k.group_norm_apply(args, b, 0, cut, mean_rstd.data());
    k.group_norm_apply(args, b, cut, c.pixels, mean_rstd.data());
  }
  expect_matrix(y, {4e-6, 4e-6}, [&](std::int64_t r, std::int64_t i) {
    const auto channel = static_cast<std::size_t>(i);
    return group_norm_value(x, c, r, i, c.affine ? static_cast<double>(weight[channel]) : 1.0,
                            c.affine ? static_cast<double>(bias[channel]) : 0.0);
  });
}

TEST_P(RowwiseNorm, GroupNormCoversAllPixelsOfItsItem) {
  const GroupCase cases[] = {
      {7, 6, 3, Act::None, true},     {70, 32, 32, Act::Silu, true}, {9, 640, 32, Act::Silu, true},
      {131, 17, 1, Act::None, false}, {5, 1200, 8, Act::None, true},
  };
  for (const GroupCase& c : cases) {
    for (int types = 0; types < 4; ++types) {
      check_group_norm(k_, c, types);
      if (HasFatalFailure()) FAIL() << c.channels << " channels, types " << types;
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
