// Packing of operands into words (see tile.h): conversion, transposition, zero padding. Private to
// the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/tile.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// kLanes words from the start of p, in the layout of a row. Bytes come from bytes only.
template <Elem kWord>
inline Vec::W words_of(const void* p, Elem src) {
  if (kWord == src || kWord == Elem::I8) return Vec::load_words(p);
  if constexpr (kWord == Elem::Bf16) {
    const auto* f = static_cast<const float*>(p);
    return Vec::pack_bf16(Vec::load(f), Vec::load(f + Vec::kLanes));
  } else {
    return Vec::as_words(Vec::load_bf16(static_cast<const std::uint16_t*>(p)));
  }
}

// The same when only `elems` elements are there; the rest is zero.
template <Elem kWord>
inline Vec::W words_of_part(const void* p, Elem src, std::int64_t elems) {
  if (elems >= Vec::kLanes * word_elems<kWord>()) return words_of<kWord>(p, src);
  alignas(64) char part[Vec::kLanes * 8] = {};
  if (elems > 0) copy_bytes(part, p, elems * bytes_of(src));
  return words_of<kWord>(part, src);
}

// A row of `elems` elements as words, zero-padded to a multiple of kLanes words. The same part of
// the row `stride` elements further, which the hardware does not expect, is fetched meanwhile.
template <Elem kWord>
inline void pack_row(const void* row, Elem src, std::int64_t stride, std::int64_t elems, Word* to) {
  constexpr std::int64_t kStep = Vec::kLanes * word_elems<kWord>();
  for (std::int64_t k = 0; k < elems; k += kStep, to += Vec::kLanes) {
    __builtin_prefetch(element(row, src, stride + k), 0, 3);
    Vec::store_words(to, words_of_part<kWord>(element(row, src, k), src, elems - k));
  }
}

// Words [0, kLanes) of `rows` <= kLanes rows, transposed: word s of row r goes to to[s * step + r].
// Returns all ones where an element is NaN or Inf.
template <Elem kWord>
inline Vec::W pack_square(const void* from, Elem src, std::int64_t stride, std::int64_t rows,
                          std::int64_t elems, Word* to, std::int64_t step, std::int64_t steps) {
  Vec::W r[Vec::kLanes];
  Vec::W bad = Vec::zero_words();
#pragma GCC unroll 16
  for (int i = 0; i < Vec::kLanes; ++i) {
    r[i] = i < rows ? words_of_part<kWord>(element(from, src, i * stride), src, elems)
                    : Vec::zero_words();
    if constexpr (kWord == Elem::F32) bad = Vec::words_or(bad, Vec::nonfinite_f32(r[i]));
    if constexpr (kWord == Elem::Bf16) bad = Vec::words_or(bad, Vec::nonfinite_bf16(r[i]));
  }
  Vec::transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < Vec::kLanes; ++i) {
    if (i < steps) Vec::store_words(to + i * step, r[i]);
  }
  return bad;
}

// A transposed operand [rows, elems] as a panel [steps][kVecs * lanes] of words. Returns all ones
// where an element is NaN or Inf.
template <Elem kWord, int kVecs>
inline Vec::W pack_panel(const void* from, Elem src, std::int64_t stride, std::int64_t rows,
                         std::int64_t elems, Word* to, std::int64_t steps) {
  constexpr std::int64_t kCols = kVecs * Vec::kLanes;
  constexpr std::int64_t kRun = 8 * Vec::kLanes;  // words read from a row before the next row
  Vec::W bad = Vec::zero_words();
  for (std::int64_t run = 0; run < steps; run += kRun) {
    for (std::int64_t c = 0; c < kCols; c += Vec::kLanes) {
      for (std::int64_t s = run; s < smaller(steps, run + kRun); s += Vec::kLanes) {
        const std::int64_t k = s * word_elems<kWord>();
        const void* at = element(from, src, (c < rows ? c : 0) * stride + k);
        bad = Vec::words_or(bad, pack_square<kWord>(at, src, stride, rows - c, elems - k,
                                                    to + s * kCols + c, kCols, steps - s));
      }
    }
  }
  return bad;
}

}  // namespace
}  // namespace difflet::cpu
