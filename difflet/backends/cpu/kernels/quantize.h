// Rows of x as bytes: a = x * smooth, s = max |a| / 127 of the row, q = a / s to the nearest integer, ties
// to even. Rounded step by step as graph/decompose.cc does, so that every level gets the same bytes.
// Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/tile.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

struct QuantRow {
  const char* x = nullptr;  // [k]
  Elem elem = Elem::F32;
  std::int64_t k = 0;
  const float* smooth = nullptr;  // [k] or null
  std::int64_t ahead = 0;         // bytes to the row that is fetched meanwhile

  // kLanes elements of a; zero behind the end.
  [[gnu::always_inline]] Vec::F load(std::int64_t i) const {
    const std::int64_t left = k - i;
    const bool whole = left >= Vec::kLanes;
    if (left <= 0) return Vec::zero();
    const char* at = element(x, elem, i);
    Vec::F v = whole ? load_as(at, elem) : load_part(at, elem, left);
    if (smooth != nullptr) {
      v = Vec::mul(v, whole ? Vec::load(smooth + i) : load_part(smooth + i, Elem::F32, left));
    }
    return v;
  }
};

struct RowScale {
  float scale = 0, inverse = 0;
};

// Magnitudes are compared as integers, among which NaN and Inf are the largest. A row that holds one
// has the scale NaN.
inline RowScale row_scale(const QuantRow& row) {
  Vec::W top = Vec::zero_words();
  for (std::int64_t i = 0; i < row.k; i += Vec::kLanes) {
    __builtin_prefetch(element(row.x, row.elem, i) + row.ahead, 0, 3);
    top = Vec::max_words(top, Vec::as_words(Vec::abs(row.load(i))));
  }
  alignas(64) float lanes[Vec::kLanes];
  Vec::store_words(lanes, top);
  float most = 0;
  for (const float lane : lanes) {
    if (!(lane <= __FLT_MAX__)) return {__builtin_nanf(""), 0};
    if (lane > most) most = lane;
  }
  constexpr float kLargest = 127;
  constexpr auto kPart = static_cast<float>(1.0 / 127);
  constexpr float kLeast = 1e-30F;  // a row of zeros stays one, whatever it is divided by
  return {most * kPart, kLargest / (most > kLeast ? most : kLeast)};
}

// kLanes words of the row from element i on, and their elements added to `sum`.
template <class Dot>
[[gnu::always_inline]] inline Vec::W quantised_words(const QuantRow& row, std::int64_t i,
                                                     Vec::F inverse, Vec::W* sum) {
  Vec::W q[Dot::kElems];
#pragma GCC unroll 4
  for (int part = 0; part < Dot::kElems; ++part) {
    q[part] = Vec::to_ints(Vec::mul(row.load(i + part * Vec::kLanes), inverse));
    if constexpr (Dot::kOffset != 0) *sum = Vec::add_words(*sum, q[part]);
  }
  if constexpr (Dot::kElems == 4) {
    return Vec::pack_bytes(q[0], q[1], q[2], q[3]);
  } else {
    return Vec::pack_shorts(q[0], q[1]);
  }
}

// Elements [first, last) of the row, zero-padded to a multiple of kLanes words, as the words that Dot
// multiplies. Returns the sum of the elements where Dot needs it, which wraps around for a row without a
// scale.
template <class Dot>
inline std::uint32_t quantise_row(const QuantRow& row, float inverse, std::int64_t first,
                                  std::int64_t last, Word* to) {
  constexpr std::int64_t kStep = Vec::kLanes * Dot::kElems;
  const Vec::F factor = Vec::set1(inverse);
  Vec::W sum = Vec::zero_words();
  for (std::int64_t i = first; i < last; i += kStep, to += Vec::kLanes) {
    Vec::store_words(to, quantised_words<Dot>(row, i, factor, &sum));
  }
  if constexpr (Dot::kOffset == 0) return 0;
  alignas(64) std::uint32_t lanes[Vec::kLanes];
  Vec::store_words(lanes, sum);
  std::uint32_t total = 0;
  for (const std::uint32_t lane : lanes) total += lane;
  return total;
}

}  // namespace
}  // namespace difflet::cpu
