// The work on rows of the attention kernel over tiles: scores become probabilities, sums become results.
// It is done a row at a time between the products of tiles (Slot).
//
// A row of scores is taken relative to a reference of its query: an integer power of two that is at least
// 2^-kSlack of the largest score so far. Only a score beyond that raises the reference, which is seldom;
// everything that was taken relative to the old one (weights, sums, probabilities that wait for their
// product) is then scaled by a power of two, which rounds nothing. So nothing overflows, the largest
// probability of a query is never small, and no row waits for the largest of all its scores.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/amx_tiles.h"
#include "difflet/backends/cpu/kernels/attention_keys.h"
#include "difflet/backends/cpu/kernels/pack.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

static_assert(Vec::kLanes == 16);

struct AmxAttentionRows {
  static constexpr std::int64_t kUnit = 32;   // queries that are worked on together
  static constexpr std::int64_t kBlock = 32;  // keys of a block of scores, [32][32] f32
  static constexpr std::int64_t kFloats = kUnit * kBlock;
  static constexpr std::int64_t kBlockBytes = 2 * kTileBytes;  // of probabilities, [32][32] bf16
  static constexpr float kSlack = 8;
  static constexpr float kNoScore = -3e38F;  // the reference before the first score

  // State of a query, in floats: 16 partial weights, the score above which the reference rises, minus the
  // reference, and what the sums are to be scaled by before those of an even or an odd item are added.
  enum RowPlace { kWeight = 0, kLimit = 16, kShift = 17, kShrink = 18, kRowFloats = 32 };

  // A block of scores in the ring.
  struct ScoreBlock {
    char* p = nullptr;        // its probabilities, two tiles
    float* row = nullptr;     // state of the first query
    std::int64_t rows = 0;    // queries
    std::int64_t query = 0;   // the first
    std::int64_t key = 0;     // the first
    std::int64_t index = 0;   // blocks of its item before it
    std::int64_t parity = 0;  // of its item
    bool* risen = nullptr;    // whether sums are to be scaled before those of its item
    bool first = false;       // of its unit
    bool plain = false;       // scores are used as they come
  };

  // Lines that the products to come need, fetched into L2: rows of `bytes` bytes.
  struct Ahead {
    struct Part {
      const char* at = nullptr;
      std::int64_t bytes = 0, stride = 0, rows = 0;  // no rows: the end
    };
    Part part;
    const Part* next = nullptr;
    const char* at = nullptr;
    const char* end = nullptr;
    int lines = 0;  // behind a step

    void start(const Part* parts, int lines_a_step) {
      part = *parts;
      next = parts + 1;
      lines = part.rows > 0 ? lines_a_step : 0;
      at = part.at;
      end = at + part.bytes;
    }
    [[gnu::always_inline]] void fetch() {
      for (int i = 0; i < lines; ++i) {
        __builtin_prefetch(at, 0, 2);
        at += 64;
        if (at >= end) turn();
      }
    }
    [[gnu::always_inline]] void turn() {
      part.at += part.stride;
      if (--part.rows <= 0) part = *next++;
      if (part.rows <= 0) lines = 0;
      at = part.at;
      end = at + part.bytes;
    }
  };

  // What rows need to know of their task.
  struct Shared {
    const AttentionArgs* a = nullptr;
    std::int64_t batch = 0, head = 0;
    std::int64_t steps = 0;       // of head_dim, 32 each
    bool plain = false;           // one positive scale, no bias
    float to_exp2 = 0;            // from scores to exponents of two
    float* scores = nullptr;      // the ring, blocks
    const float* rows = nullptr;  // states of the queries of the group
    const float* sums = nullptr;  // [unit][head_dim / 32][32][32]
    char* y = nullptr;            // of the group's first query
  };

  static Vec::F up(Vec::F v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  }
  // 2^v, exact for integers.
  static Vec::F power(Vec::F v) { return _mm512_scalef_ps(Vec::set1(1), v); }
  static Vec::F negative(Vec::F v) { return Vec::sub(Vec::zero(), v); }
  // The reference for scores up to `top`, in exponents of two.
  static Vec::F reference(Vec::F top) { return Vec::max(up(top), Vec::set1(kNoScore)); }
  static Vec::F limit_of(Vec::F reference, float to_exp2) {
    const Vec::F limit = Vec::mul(Vec::add(reference, Vec::set1(kSlack)), Vec::set1(1 / to_exp2));
    const __mmask16 none = _mm512_cmp_ps_mask(reference, Vec::set1(kNoScore), _CMP_LE_OQ);
    return _mm512_mask_mov_ps(limit, none, Vec::set1(kMinusInf));
  }

  // Scale, bias and bounds of row `r` of a block.
  [[gnu::noinline]] static void adjust(const Shared& w, const ScoreBlock& b, float* s,
                                       std::int64_t r) {
    const AttentionArgs& a = *w.a;
    const KeySpan seen = keys_of_query(a, w.batch, b.query + r);
    const float* bias = nullptr;
    if (a.bias != nullptr) {
      bias = a.bias + w.batch * a.bias_batch + w.head * a.bias_head + (b.query + r) * a.bias_query +
             b.key;
    }
    const auto lanes = [](std::int64_t count) {
      return static_cast<__mmask16>((1U << larger(0, smaller(count, 16))) - 1);
    };
    for (std::int64_t i = 0; i < kBlock; i += 16) {
      const std::int64_t key = b.key + i;
      const auto mask = static_cast<__mmask16>(lanes(seen.hi - key) & ~lanes(seen.lo - key));
      Vec::F v = Vec::load(s + i);
      if (!w.plain) {
        const Vec::F add = bias == nullptr ? Vec::zero() : _mm512_maskz_loadu_ps(mask, bias + i);
        v = Vec::fma(v, Vec::set1(a.scale), add);
      }
      Vec::store(s + i, _mm512_mask_mov_ps(Vec::set1(kMinusInf), mask, v));
    }
  }

  // The state of a unit's queries before their first block of scores: references from the block itself.
  [[gnu::noinline]] static void start_unit(const Shared& w, const ScoreBlock& b, float* scores) {
    alignas(64) float limits[16];
    alignas(64) float shifts[16];
    for (std::int64_t r = 0; r < b.rows && !b.plain; ++r) adjust(w, b, scores + r * kBlock, r);
    for (std::int64_t half = 0; half < b.rows; half += 16) {
      Vec::W t[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const float* s = scores + (half + i) * kBlock;
        t[i] = Vec::as_words(Vec::max(Vec::load(s), Vec::load(s + 16)));
      }
      Vec::transpose(t);
      Vec::F top = Vec::as_floats(t[0]);
#pragma GCC unroll 16
      for (int i = 1; i < 16; ++i) top = Vec::max(top, Vec::as_floats(t[i]));
      const Vec::F ref = reference(Vec::mul(top, Vec::set1(w.to_exp2)));
      Vec::store(limits, limit_of(ref, w.to_exp2));
      Vec::store(shifts, negative(ref));
      for (std::int64_t i = 0; i < 16; ++i) {
        float* row = b.row + (half + i) * kRowFloats;
        Vec::store(row + kWeight, Vec::zero());
        row[kLimit] = limits[i];
        row[kShift] = shifts[i];
        row[kShrink] = row[kShrink + 1] = 1;
      }
    }
  }

  // Raises the reference of row `r` of a block to its scores, the largest of which are in `top`.
  [[gnu::noinline, gnu::cold]] static void rise(const Shared& w, const ScoreBlock& b,
                                                std::int64_t r, Vec::F top) {
    float* row = b.row + r * kRowFloats;
    const Vec::F ref = reference(Vec::set1(Vec::reduce_max(top) * w.to_exp2));
    const Vec::F factor = power(Vec::sub(negative(Vec::set1(row[kShift])), ref));
    Vec::store(row + kWeight, Vec::mul(Vec::load(row + kWeight), factor));
    row[kLimit] = _mm512_cvtss_f32(limit_of(ref, w.to_exp2));
    row[kShift] = _mm512_cvtss_f32(negative(ref));
    row[kShrink + b.parity] *= _mm512_cvtss_f32(factor);
    *b.risen = true;
    for (std::int64_t i = 1; i <= b.index; ++i) {
      auto* p = reinterpret_cast<std::uint16_t*>(b.p - i * kBlockBytes + r * kTileRowBytes);
      Vec::store_bf16(p, Vec::mul(Vec::load_bf16(p), factor));
      Vec::store_bf16(p + 16, Vec::mul(Vec::load_bf16(p + 16), factor));
    }
  }

  // y = sums / weight of query `r` of the group; zeros where no key was seen.
  [[gnu::always_inline]] static void finish_row(const Shared& w, std::int64_t r) {
    const float weight = Vec::reduce_add(Vec::load(w.rows + r * kRowFloats + kWeight));
    const Vec::F inverse = Vec::set1(weight == 0 ? 0 : 1 / weight);
    const float* sums = w.sums + r / kUnit * w.steps * kFloats + r % kUnit * kBlock;
    char* y = w.y + r * w.a->y_token * 2;
    for (std::int64_t d = 0; d < w.steps; ++d, sums += kFloats, y += 64) {
      Vec::store_words(y, Vec::pack_bf16(Vec::mul(Vec::load(sums), inverse),
                                         Vec::mul(Vec::load(sums + 16), inverse)));
    }
  }

  // Behind the products: rows of scores of the oldest block, lines to fetch, rows of results. kRing:
  // blocks in the ring.
  template <std::int64_t kRing>
  struct Slot {
    const Shared* w = nullptr;
    const ScoreBlock* ring = nullptr;
    std::int64_t done = 0;    // blocks that are probabilities; the oldest is block done % kRing
    std::int64_t stored = 0;  // blocks whose scores are in the ring, or will be after a first step
    // The oldest block, when it has been begun.
    float* s = nullptr;
    float* row = nullptr;
    char* p = nullptr;
    std::int64_t left = 0;  // rows; 0: not begun
    bool plain = false;
    int credit = 0;
    Ahead ahead;
    std::int64_t finish = 0, finish_end = 0;  // queries of the group

    static std::int64_t place_of(std::int64_t block) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(block) % kRing);
    }
    [[gnu::always_inline]] void begin() {
      const std::int64_t place = place_of(done);
      const ScoreBlock& b = ring[place];
      s = w->scores + place * kFloats;
      row = b.row;
      p = b.p;
      left = b.rows;
      plain = b.plain;
      if (b.first) {
        start_unit(*w, b, s);
        plain = true;  // adjusted by now
      }
    }

    // Precondition: done < stored.
    [[gnu::always_inline]] void one() {
      if (left == 0) begin();
      const ScoreBlock& b = ring[place_of(done)];
      if (!plain) adjust(*w, b, s, b.rows - left);
      Vec::F x = Vec::load(s);
      Vec::F y = Vec::load(s + 16);
      const Vec::F top = Vec::max(x, y);
      const __mmask16 above = _mm512_cmp_ps_mask(top, Vec::set1(row[kLimit]), _CMP_GT_OQ);
      if (__builtin_expect(static_cast<long>(above != 0), 0) != 0) rise(*w, b, b.rows - left, top);
      const Vec::F scale = Vec::set1(w->to_exp2);
      const Vec::F shift = Vec::set1(row[kShift]);
      x = exp2<3>(Vec::fma(x, scale, shift));
      y = exp2<3>(Vec::fma(y, scale, shift));
      Vec::store(row + kWeight, Vec::add(Vec::load(row + kWeight), Vec::add(x, y)));
      Vec::store_words(p, Vec::pack_bf16(x, y));
      s += kBlock;
      row += kRowFloats;
      p += kTileRowBytes;
      if (--left == 0) ++done;
    }

    // After `products` products, as many rows as keep up with the scores (32 rows for 8 * steps
    // products), and a few more.
    [[gnu::always_inline]] void tick(int products) {
      const int price = static_cast<int>(2 * w->steps);
      credit += 9 * products;
      for (; credit >= price && done < stored; credit -= price) one();
      if (done == stored) credit = 0;
    }

    template <int kProduct, bool kFirst>
    [[gnu::always_inline]] void behind() {
      if constexpr (kProduct == 1 && !kFirst) tick(2);
      if constexpr (kProduct == 2 && !kFirst) {
        if (finish < finish_end) finish_row(*w, finish++);
      }
      if constexpr (kProduct == 3) {
        tick(kFirst ? 4 : 2);
        ahead.fetch();
      }
    }
  };
};

}  // namespace
}  // namespace difflet::cpu
