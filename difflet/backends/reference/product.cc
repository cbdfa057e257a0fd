#include <algorithm>
#include <cmath>

#include "difflet/backends/reference/kernels.h"
#include "difflet/base/error.h"

namespace difflet::reference {

using graph::ReduceKind;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <typename T>
bool is_nan([[maybe_unused]] T x) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return std::isnan(x);
  }
}

// One more element of a reduction; NaN wins over any number.
template <typename T>
void accumulate(ReduceKind kind, T x, T& sum) {
  switch (kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
      if constexpr (std::is_integral_v<T>) {
        sum = static_cast<T>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(x));
      } else {
        sum += x;
      }
      break;
    case ReduceKind::Max:
      sum = x > sum || is_nan(x) ? x : sum;
      break;
    case ReduceKind::Min:
      sum = x < sum || is_nan(x) ? x : sum;
      break;
  }
}

// Reduces values[i] into slot to[i], each slot seeded with its first value.
template <typename T, typename Sum>
void reduce_into(ReduceKind kind, const std::vector<T>& values, const std::vector<std::int64_t>& to,
                 std::vector<Sum>& sums) {
  std::vector<bool> begun(sums.size(), false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t slot = at(to[i]);
    if (begun[slot]) {
      accumulate(kind, static_cast<Sum>(values[i]), sums[slot]);
    } else {
      sums[slot] = static_cast<Sum>(values[i]);
      begun[slot] = true;
    }
  }
}

void store(const std::vector<double>& sums, double scale, Value& out) {
  std::ranges::transform(sums, out.floats.begin(),
                         [scale](double sum) { return static_cast<float>(sum * scale); });
}

// row [N] += a [K] x b [K, N]
void multiply_row(const float* a, const float* b, std::size_t k, std::vector<double>& row) {
  const std::size_t n = row.size();
  for (std::size_t i = 0; i < k; ++i) {
    const double x = a[i];
    for (std::size_t j = 0; j < n; ++j) {
      row[j] += x * double{b[i * n + j]};
    }
  }
}

}  // namespace

Value reduce(ReduceKind kind, const Value& x, const graph::Type& type) {
  Value out(type);
  const auto to = offsets(x.shape(), broadcast_strides(type.shape, x.shape()));
  if (!out.is_float()) {
    reduce_into(kind, x.ints, to, out.ints);
    return std::move(out).rounded();
  }
  std::vector<double> sums(out.floats.size());
  reduce_into(kind, x.floats, to, sums);
  const double count = static_cast<double>(x.size()) / static_cast<double>(out.size());
  store(sums, kind == ReduceKind::Mean ? 1 / count : 1, out);
  return std::move(out).rounded();
}

Value reduce_values(ReduceKind kind, std::span<const ValuePtr> values) {
  Value out(values[0]->type);
  if (!out.is_float()) {
    out.ints = values[0]->ints;
    for (const ValuePtr& value : values.subspan(1)) {
      for (std::size_t i = 0; i < out.ints.size(); ++i) {
        accumulate(kind, value->ints[i], out.ints[i]);
      }
    }
    return std::move(out).rounded();
  }
  std::vector<double> sums(values[0]->floats.begin(), values[0]->floats.end());
  for (const ValuePtr& value : values.subspan(1)) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      accumulate(kind, double{value->floats[i]}, sums[i]);
    }
  }
  store(sums, kind == ReduceKind::Mean ? 1 / static_cast<double>(values.size()) : 1, out);
  return std::move(out).rounded();
}

Value argmax(const Value& x, std::int64_t axis, const graph::Type& type) {
  Value out(type);
  const auto strides = strides_of(x.shape());
  const std::int64_t extent = x.shape()[at(axis)];
  const auto starts = offsets(x.shape().with(at(axis), 1), strides);
  const auto search = [&](const auto& values) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < extent; ++k) {
        if (values[at(starts[i] + k * strides[at(axis)])] >
            values[at(starts[i] + best * strides[at(axis)])]) {
          best = k;
        }
      }
      out.ints[i] = best;
    }
  };
  x.is_float() ? search(x.floats) : search(x.ints);
  return out;
}

Value matmul(const Value& a, const Value& b, const graph::Type& type) {
  Value out(type);
  const std::size_t rank = type.shape.rank();
  const auto m = at(type.shape[rank - 2]);
  const auto n = at(type.shape[rank - 1]);
  const auto k = at(a.shape()[a.shape().rank() - 1]);
  const Shape batch(type.shape.dims().first(rank - 2));
  const auto lead = [&](const Value& x) {
    const Shape own(x.shape().dims().first(x.shape().rank() - 2));
    return offsets(batch, broadcast_strides(own, batch));
  };
  const auto ia = lead(a);
  const auto ib = lead(b);
  std::vector<double> row(n);
  for (std::size_t i = 0; i < ia.size(); ++i) {
    for (std::size_t r = 0; r < m; ++r) {
      std::ranges::fill(row, 0.0);
      multiply_row(&a.floats[(at(ia[i]) * m + r) * k], &b.floats[at(ib[i]) * k * n], k, row);
      std::ranges::transform(row, &out.floats[(i * m + r) * n],
                             [](double sum) { return static_cast<float>(sum); });
    }
  }
  return std::move(out).rounded();
}

Value conv2d(const graph::Conv2d& op, std::span<const ValuePtr> operands, const graph::Type& type) {
  const Value& x = *operands[0];
  const Shape& in = x.shape();            // [B, h, w, C]
  const Shape& w = operands[1]->shape();  // [O, C/groups, kh, kw]
  const std::int64_t group_out = w[0] / op.groups;
  // [groups, kh, kw, C/groups, O/groups]: rows that multiply_row() takes.
  const Value split = reshape(*operands[1], Shape{op.groups, group_out, w[1], w[2], w[3]});
  const Value weight = transpose(split, {0, 3, 4, 2, 1},
                                 {split.type.dtype, Shape{op.groups, w[2], w[3], w[1], group_out}});
  Value out(type);  // [B, h', w', O]
  std::vector<double> row(at(group_out));
  std::size_t next = 0;
  const auto pixel = [&](std::int64_t b, std::int64_t y, std::int64_t left, std::int64_t g) {
    for (std::int64_t ky = 0; ky < w[2]; ++ky) {
      for (std::int64_t kx = 0; kx < w[3]; ++kx) {
        if (y + ky < 0 || y + ky >= in[1] || left + kx < 0 || left + kx >= in[2]) {
          continue;
        }
        const std::int64_t from = ((b * in[1] + y + ky) * in[2] + left + kx) * in[3] + g * w[1];
        const std::int64_t tap = ((g * w[2] + ky) * w[3] + kx) * w[1] * group_out;
        multiply_row(&x.floats[at(from)], &weight.floats[at(tap)], at(w[1]), row);
      }
    }
  };
  for (std::int64_t b = 0; b < type.shape[0]; ++b) {
    for (std::int64_t y = 0; y < type.shape[1]; ++y) {
      for (std::int64_t left = 0; left < type.shape[2]; ++left) {
        for (std::int64_t g = 0; g < op.groups; ++g) {
          for (std::int64_t o = 0; o < group_out; ++o) {
            row[at(o)] = op.bias ? double{operands[2]->floats[at(g * group_out + o)]} : 0.0;
          }
          pixel(b, y * op.stride - op.pad_top, left * op.stride - op.pad_left, g);
          for (const double sum : row) {
            out.floats[next++] = static_cast<float>(sum);
          }
        }
      }
    }
  }
  return std::move(out).rounded();
}

}  // namespace difflet::reference
