#include <cmath>
#include <limits>

#include "difflet/backends/reference/kernels.h"
#include "difflet/base/error.h"

namespace difflet::reference {

using graph::BinaryKind;
using graph::CompareKind;
using graph::UnaryKind;

namespace {

double apply(UnaryKind kind, double x) {
  switch (kind) {
    case UnaryKind::Neg:
      return -x;
    case UnaryKind::Abs:
      return std::abs(x);
    case UnaryKind::Exp:
      return std::exp(x);
    case UnaryKind::Log:
      return std::log(x);
    case UnaryKind::Sin:
      return std::sin(x);
    case UnaryKind::Cos:
      return std::cos(x);
    case UnaryKind::Sqrt:
      return std::sqrt(x);
    case UnaryKind::Rsqrt:
      return 1 / std::sqrt(x);
    case UnaryKind::Tanh:
      return std::tanh(x);
    case UnaryKind::Erf:
      return std::erf(x);
    case UnaryKind::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryKind::Floor:
      return std::floor(x);
  }
  return x;
}

float apply(BinaryKind kind, float a, float b) {
  switch (kind) {
    case BinaryKind::Add:
      return a + b;
    case BinaryKind::Sub:
      return a - b;
    case BinaryKind::Mul:
      return a * b;
    case BinaryKind::Div:
      return a / b;
    case BinaryKind::Max:
      return std::isnan(a) || a > b ? a : b;  // NaN wins, as in NumPy
    case BinaryKind::Min:
      return std::isnan(a) || a < b ? a : b;
    case BinaryKind::Pow:
      return static_cast<float>(std::pow(double{a}, double{b}));
  }
  return a;
}

std::int64_t wrap(std::uint64_t x) { return static_cast<std::int64_t>(x); }

// Two's complement; division truncates, x / 0 is -1 and the one overflowing quotient is the dividend.
std::int64_t apply(BinaryKind kind, std::int64_t a, std::int64_t b) {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (kind) {
    case BinaryKind::Add:
      return wrap(ua + ub);
    case BinaryKind::Sub:
      return wrap(ua - ub);
    case BinaryKind::Mul:
      return wrap(ua * ub);
    case BinaryKind::Div:
      return b == 0 ? -1 : b == -1 ? wrap(-ua) : a / b;
    case BinaryKind::Max:
      return std::max(a, b);
    case BinaryKind::Min:
      return std::min(a, b);
    case BinaryKind::Pow:
      break;
  }
  fail(ErrorCode::Internal, "reference: pow of integers");
}

template <typename T>
bool apply(CompareKind kind, T a, T b) {
  switch (kind) {
    case CompareKind::Eq:
      return a == b;
    case CompareKind::Ne:
      return a != b;
    case CompareKind::Lt:
      return a < b;
    case CompareKind::Le:
      return a <= b;
    case CompareKind::Gt:
      return a > b;
    case CompareKind::Ge:
      return a >= b;
  }
  return false;
}

// out[i] = f(a[i], b[i]), operands read as broadcast to `shape`.
template <typename A, typename R, typename F>
void zip(const Value& a, const std::vector<A>& x, const Value& b, const std::vector<A>& y,
         const Shape& shape, std::vector<R>& out, const F& f) {
  if (a.shape() == shape && b.shape() == shape) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = f(x[i], y[i]);
    }
    return;
  }
  const auto ia = offsets(shape, broadcast_strides(a.shape(), shape));
  const auto ib = offsets(shape, broadcast_strides(b.shape(), shape));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = f(x[static_cast<std::size_t>(ia[i])], y[static_cast<std::size_t>(ib[i])]);
  }
}

// Truncates toward zero; saturates; NaN is 0.
std::int64_t to_integer(float f, std::int64_t low, std::int64_t high) {
  if (std::isnan(f)) {
    return 0;
  }
  const auto d = static_cast<double>(f);
  if (d <= static_cast<double>(low)) {
    return low;
  }
  return d >= static_cast<double>(high) ? high : static_cast<std::int64_t>(d);
}

template <typename Limits>
void truncate(const Value& x, Value& out) {
  for (std::size_t i = 0; i < out.ints.size(); ++i) {
    out.ints[i] = to_integer(x.floats[i], Limits::min(), Limits::max());
  }
}

}  // namespace

Value iota(const graph::Iota& op) {
  Value out({op.dtype, op.shape});
  std::vector<std::int64_t> strides(op.shape.rank(), 0);
  strides[static_cast<std::size_t>(op.axis)] = 1;
  const auto counts = offsets(op.shape, strides);
  if (out.is_float()) {
    out.floats.assign(counts.begin(), counts.end());
  } else {
    out.ints = counts;
  }
  return std::move(out).rounded();
}

Value unary(UnaryKind kind, const Value& x) {
  Value out(x.type);
  for (std::size_t i = 0; i < out.floats.size(); ++i) {
    out.floats[i] = static_cast<float>(apply(kind, double{x.floats[i]}));
  }
  for (std::size_t i = 0; i < out.ints.size(); ++i) {
    const std::int64_t v = x.ints[i];
    out.ints[i] = kind == UnaryKind::Neg || v < 0 ? apply(BinaryKind::Sub, std::int64_t{0}, v) : v;
  }
  return std::move(out).rounded();
}

Value binary(BinaryKind kind, const Value& a, const Value& b, const graph::Type& type) {
  Value out(type);
  const auto f = [kind](auto x, auto y) { return apply(kind, x, y); };
  if (out.is_float()) {
    zip(a, a.floats, b, b.floats, type.shape, out.floats, f);
  } else {
    zip(a, a.ints, b, b.ints, type.shape, out.ints, f);
  }
  return std::move(out).rounded();
}

Value compare(CompareKind kind, const Value& a, const Value& b, const graph::Type& type) {
  Value out(type);
  const auto f = [kind](auto x, auto y) -> std::int64_t { return apply(kind, x, y) ? 1 : 0; };
  if (a.is_float()) {
    zip(a, a.floats, b, b.floats, type.shape, out.ints, f);
  } else {
    zip(a, a.ints, b, b.ints, type.shape, out.ints, f);
  }
  return out;
}

Value select(const Value& condition, const Value& a, const Value& b, const graph::Type& type) {
  Value out(type);
  const auto ic = offsets(type.shape, broadcast_strides(condition.shape(), type.shape));
  const auto ia = offsets(type.shape, broadcast_strides(a.shape(), type.shape));
  const auto ib = offsets(type.shape, broadcast_strides(b.shape(), type.shape));
  const auto pick = [&](const auto& x, const auto& y, auto& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = condition.ints[static_cast<std::size_t>(ic[i])] != 0
                  ? x[static_cast<std::size_t>(ia[i])]
                  : y[static_cast<std::size_t>(ib[i])];
    }
  };
  out.is_float() ? pick(a.floats, b.floats, out.floats) : pick(a.ints, b.ints, out.ints);
  return out;
}

Value convert(const Value& x, DType dtype) {
  Value out({dtype, x.shape()});
  if (out.is_float()) {
    for (std::size_t i = 0; i < out.floats.size(); ++i) {
      out.floats[i] = x.is_float() ? x.floats[i] : static_cast<float>(x.ints[i]);
    }
  } else if (!x.is_float()) {
    out.ints = x.ints;
  } else if (dtype == DType::I32) {
    truncate<std::numeric_limits<std::int32_t>>(x, out);
  } else if (dtype == DType::I64) {
    truncate<std::numeric_limits<std::int64_t>>(x, out);
  } else {
    for (std::size_t i = 0; i < out.ints.size(); ++i) {
      out.ints[i] = x.floats[i] != 0 ? 1 : 0;
    }
  }
  return std::move(out).rounded();
}

}  // namespace difflet::reference
