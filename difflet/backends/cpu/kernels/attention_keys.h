// Which keys a query of attention sees. Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/attention.h"
#include "difflet/backends/cpu/kernels/vec_math.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

constexpr float kMinusInf = -__builtin_inff();

// Keys [lo, hi); none when lo >= hi.
struct KeySpan {
  std::int64_t lo, hi;
};

inline KeySpan keys_of_query(const AttentionArgs& a, std::int64_t batch, std::int64_t query) {
  KeySpan r{0, a.k_len};
  if (a.causal) r.hi = smaller(r.hi, query + 1 + a.k_len - a.q_len);
  const std::int64_t at = batch * a.q_len + query;
  if (a.key_min != nullptr) r.lo = larger(r.lo, a.key_min[at]);
  if (a.key_max != nullptr) r.hi = smaller(r.hi, a.key_max[at]);
  return r;
}

// What at least one of `count` queries sees.
inline KeySpan keys_of_any(const AttentionArgs& a, std::int64_t batch, std::int64_t query,
                           std::int64_t count) {
  KeySpan u{a.k_len, 0};
  for (std::int64_t i = 0; i < count; ++i) {
    const KeySpan r = keys_of_query(a, batch, query + i);
    if (r.lo < r.hi) u = {smaller(u.lo, r.lo), larger(u.hi, r.hi)};
  }
  return u;
}

// What each of them sees.
inline KeySpan keys_of_all(const AttentionArgs& a, std::int64_t batch, std::int64_t query,
                           std::int64_t count) {
  KeySpan u{0, a.k_len};
  for (std::int64_t i = 0; i < count; ++i) {
    const KeySpan r = keys_of_query(a, batch, query + i);
    u = {larger(u.lo, r.lo), smaller(u.hi, r.hi)};
  }
  return u;
}

}  // namespace
}  // namespace difflet::cpu
