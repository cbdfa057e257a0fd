// The kinds of products over tiles, and their weights packed.
//
// Weights lie as tiles in the order in which they are used, one tile for each half of a panel of 32
// columns:
//   bf16    [N / 32][K / 32][2][16 pairs along K][16 columns][2]    1 KB a tile
//   w8a8    [N / 32][K / 64][2][16 fours along K][16 columns][4]    1 KB a tile, s8
//   w8a16   [N / 32][K / 32][2][8 fours along K][16 columns][4]     512 bytes a tile, s8 with 128 added
// so that a line of 64 bytes holds the next one, two or four elements along K of 16 columns. A line of
// w8a16 widens to the next two lines of a tile of bf16.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/amx_product.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/kernels/pack.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

static_assert(Vec::kLanes == 16);

constexpr std::int64_t kLineBytes = 64;

template <Elem kStoredAs, Products kMultiplied>
struct AmxKind {
  static constexpr Elem kWeight = kStoredAs;
  static constexpr Products kProducts = kMultiplied;
  static constexpr bool kBytes = kMultiplied == Products::Bytes;
  static constexpr Factors kFactors = kBytes ? Factors::Bytes : Factors::Bf16;
  static constexpr std::int64_t kStepElems = kBytes ? kTileS8K : kTileK;        // along K
  static constexpr std::int64_t kLines = kStepElems / word_elems<kStoredAs>();  // of a stored tile
  static constexpr std::int64_t kStoredTile = kLines * kLineBytes;              // bytes
  static constexpr std::int64_t kStoredStep = 2 * kStoredTile;                  // bytes of a panel
  static constexpr bool kWiden = kStoredTile < kTileBytes;
};

// Few: what few rows are multiplied with, without tiles (tile.h). Where that is f32, weights are widened to
// it: vdpbf16ps runs at half its rate on the chips that have tiles.
struct AmxBf16 : AmxKind<Elem::Bf16, Products::Floats> {
  using Few = Widening<DotF32, Elem::Bf16>;
  static Vec::W stored(Vec::W words) { return words; }
};

struct AmxW8a16 : AmxKind<Elem::I8, Products::Floats> {
  using Few = Widening<DotF32, Elem::I8>;
  static Vec::W stored(Vec::W bytes) { return DotBf16::stored(bytes); }
};

struct AmxW8a8 : AmxKind<Elem::I8, Products::Bytes> {
  // Tiles multiply signed bytes, vectors unsigned ones by signed ones.
  struct Few : DotI8 {
    static Operand operand(Vec::W bytes, int /*step*/) { return Vec::stored_bytes(bytes); }
  };
  static Vec::W stored(Vec::W bytes) { return bytes; }
};

template <class Kind>
struct AmxWeights {
  static constexpr std::int64_t kCols = AmxProduct<AmxTiles>::kCols;  // of a panel
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 17;  // times 127 * 127 fits 32 bits

  static std::int64_t steps_of(std::int64_t k) { return ceil_div(k, Kind::kStepElems); }
  static std::int64_t panels_of(std::int64_t n) { return ceil_div(n, kCols); }
  static std::int64_t panel_bytes(std::int64_t k) { return steps_of(k) * Kind::kStoredStep; }

  static const char* refuse(const LinearDesc& d) noexcept {
    if (d.w != Kind::kWeight) return "the kernel is for weights of another type";
    if (d.products != Kind::kProducts) return "the kernel multiplies otherwise";
    if (Kind::kBytes && d.k > kMostBytes) {
      return "sums of so many products of bytes do not fit 32 bits";
    }
    if (!Kind::kBytes && d.x != Elem::Bf16) return "the kernel multiplies bf16 by bf16 only";
    return nullptr;
  }

  static std::size_t packed_bytes(const LinearDesc& d) noexcept {
    return static_cast<std::size_t>(panels_of(d.n) * panel_bytes(d.k));
  }

  static bool pack(const LinearDesc& d, const void* w, Elem src, std::int64_t n0, std::int64_t n1,
                   void* packed) noexcept {
    constexpr std::int64_t kRun = 8;  // squares read from a row before the next row
    const std::int64_t squares = ceil_div(d.k, kSquareElems);
    Vec::W bad = Vec::zero_words();
    for (std::int64_t n = n0; n < n1; n += kCols) {
      char* const panel = static_cast<char*>(packed) + n / kCols * panel_bytes(d.k);
      for (std::int64_t run = 0; run < squares; run += kRun) {
        for (std::int64_t half = 0; half < 2; ++half) {
          const std::int64_t first = n + half * kTileRows;
          const std::int64_t rows = smaller(kTileRows, d.n - first);
          for (std::int64_t s = run; s < smaller(squares, run + kRun); ++s) {
            const std::int64_t k = s * kSquareElems;
            alignas(kLineBytes) Word square[kTileBytes / 4];  // [16 words along K][16 columns]
            bad = Vec::words_or(bad, pack_square<Kind::kWeight>(
                                         element(w, src, (rows > 0 ? first : 0) * d.k + k), src,
                                         d.k, rows, d.k - k, square, kTileRows, kTileRows));
            store_square(square, s, half, steps_of(d.k), panel);
          }
        }
      }
    }
    return !Vec::any(bad);
  }

  // A stored line as the two lines of bf16 that it stands for.
  [[gnu::always_inline]] static void widen(const char* line, char* to) {
    const Vec::W bytes = Vec::load_words(line);
    Vec::store_words(to, DotBf16::widen<Elem::I8>(bytes, 0));
    Vec::store_words(to + kLineBytes, DotBf16::widen<Elem::I8>(bytes, 1));
  }

 private:
  static constexpr std::int64_t kSquareLines = 16;
  static constexpr std::int64_t kSquareElems = kSquareLines * word_elems<Kind::kWeight>();

  // A square holds a tile of one step, or two tiles of successive steps of which the second may not exist.
  static void store_square(const Word* square, std::int64_t number, std::int64_t half,
                           std::int64_t steps, char* panel) {
    constexpr std::int64_t kSteps = kSquareLines / Kind::kLines;
    for (std::int64_t i = 0; i < kSteps; ++i) {
      const std::int64_t step = number * kSteps + i;
      if (step >= steps) return;
      char* const to = panel + step * Kind::kStoredStep + half * Kind::kStoredTile;
      const Word* const from = square + i * Kind::kLines * Vec::kLanes;
      for (std::int64_t line = 0; line < Kind::kLines; ++line) {
        Vec::store_words(to + line * kLineBytes,
                         Kind::stored(Vec::load_words(from + line * Vec::kLanes)));
      }
    }
  }
};

}  // namespace
}  // namespace difflet::cpu
