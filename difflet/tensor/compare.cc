#include "difflet/tensor/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "difflet/base/error.h"

namespace difflet {
namespace {

// Sums over the elements where both values are finite.
struct Sums {
  double aa = 0, bb = 0, ab = 0, square_error = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t counted = 0;
};

double psnr(const Sums& s) {
  if (s.square_error == 0) {
    return std::numeric_limits<double>::infinity();
  }
  const double mean = s.square_error / static_cast<double>(s.counted);
  return 10.0 * std::log10((s.high - s.low) * (s.high - s.low) / mean);
}

}  // namespace

std::string Difference::str() const {
  return fmt::format(
      "max abs {:.3g} at {} ({:.6g} against {:.6g}), relative {:.3g}, cosine {:.7f}, PSNR {:.1f} "
      "dB, "
      "{} not finite",
      max_abs, worst, a, b, relative, cosine, psnr, non_finite);
}

Difference compare(const HostTensor& a, const HostTensor& b) {
  check(a.shape() == b.shape(), ErrorCode::InvalidArgument, "cannot compare shapes {} and {}",
        a.shape().str(), b.shape().str());
  const std::vector<float> va = a.to_floats();
  const std::vector<float> vb = b.to_floats();
  const double infinity = std::numeric_limits<double>::infinity();
  Difference d;
  Sums s;
  for (std::size_t i = 0; i < va.size(); ++i) {
    const double x = va[i];
    const double y = vb[i];
    d.non_finite += std::isfinite(x) ? 0 : 1;
    // Equal infinities and a NaN for a NaN agree; any other value that is not finite is infinitely far.
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const bool finite = std::isfinite(x) && std::isfinite(y);
    const double error = same ? 0.0 : finite ? std::abs(x - y) : infinity;
    if (i == 0 || error > d.max_abs) {
      d.max_abs = error;
      d.worst = static_cast<std::int64_t>(i);
      d.a = va[i];
      d.b = vb[i];
    }
    s.square_error += error * error;
    if (finite) {
      s.aa += x * x;
      s.bb += y * y;
      s.ab += x * y;
      s.low = std::min(s.low, y);
      s.high = std::max(s.high, y);
      ++s.counted;
    }
  }
  const double error = std::sqrt(s.square_error);
  d.relative = error == 0 ? 0 : error / std::sqrt(s.bb);
  const double norms = std::sqrt(s.aa) * std::sqrt(s.bb);
  d.cosine = norms > 0 ? s.ab / norms : s.aa == s.bb ? 1 : 0;
  d.psnr = psnr(s);
  return d;
}

}  // namespace difflet
