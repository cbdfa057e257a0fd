// The Winograd kernel over tiles (AmxTiles, or an emulation of them in tests; winograd_parts.h has the
// transforms). A task is a run of tiles of the picture in the order of their rows, in units of 32:
//   1. its pixels, transformed:  v [position][unit][2][step of 32 channels][16][32]  bf16, in L2
//   2. for each panel of 32 output channels and each position, whose weights stay in L1 for all units,
//      [panel][position][step][2][16 pairs of channels][16][2], 2 x 2 tiles of sums:
//                                m [position][unit][32][32]  f32
//   3. m transformed back, bias and residual added, rounded: y
// Behind the products of a panel the weights of the next position are fetched, and the panel before is
// finished, from the other one of two m. Pixels are transformed before the products, not behind them: a
// tenth of a task with 512 channels, more with fewer.
// K is added up in one go, so that nothing depends on how tiles are cut into tasks.
// Private to the kernel units of the level; include after a vec_*.h of 16 lanes.
#pragma once

#include "difflet/backends/cpu/kernels/amx_product.h"
#include "difflet/backends/cpu/kernels/winograd_parts.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// Tuned constants.
struct AmxWinogradConfig {
  static constexpr std::int64_t kTaskBytes = 2 << 20;  // of v and m, about an L2
  static constexpr std::int64_t kMostUnits = 8;        // of a task
};

template <class Tiles, class Config>
struct AmxWinograd : WinogradParts {
  using Product = AmxProduct<Tiles>;
  static constexpr std::int64_t kUnit = Product::kRows;
  static constexpr std::int64_t kCols = Product::kCols;
  static constexpr std::int64_t kLine = 64;

  static std::int64_t panels(const WinogradDesc& d) { return ceil_div(d.out_channels, kCols); }

  // Scratch, in bytes: v, two m, a pixel of zeros.
  struct Sizes {
    std::int64_t positions, steps, units;  // units: of a full task

    explicit Sizes(const WinogradDesc& d)
        : positions(std::int64_t{points(d)} * points(d)), steps(d.in_channels / kStep) {
      const std::int64_t unit_bytes = positions * (unit_points() + 2 * Product::kFloats * 4);
      units = smaller(Config::kMostUnits, larger(1, Config::kTaskBytes / unit_bytes));
    }
    std::int64_t tiles() const { return units * kUnit; }
    // Bytes of a position: the points of a unit, the weights of a panel.
    std::int64_t unit_points() const { return 2 * steps * kTileBytes; }
    std::int64_t weights() const { return steps * Product::kStepBytes; }
    std::int64_t m_floats() const { return positions * units * Product::kFloats; }
    std::int64_t m_at() const { return positions * units * unit_points(); }
    std::int64_t zeros_at() const { return m_at() + 2 * m_floats() * 4; }
    std::int64_t end() const { return zeros_at() + steps * kLine; }
  };

  static std::size_t packed_bytes(const WinogradDesc& d) noexcept {
    const Sizes z(d);
    return static_cast<std::size_t>(panels(d) * z.positions * z.weights());
  }
  static bool pack(const WinogradDesc& d, const float* w, void* packed) noexcept {
    const Sizes z(d);
    constexpr std::int64_t kTileWords = kTileBytes / 4;
    const auto place = [&](std::int64_t n, std::int64_t position, std::int64_t s) {
      const std::int64_t step = (n / kCols * z.positions + position) * z.steps + s / kTileRows;
      const std::int64_t half = n % kCols / 16;
      return (step * 2 + half) * kTileWords + s % kTileRows * 16 + n % 16;
    };
    return WinogradParts::pack(d, w, panels(d) * kCols, place, static_cast<Word*>(packed));
  }

  static std::int64_t tasks(const WinogradArgs& a) noexcept {
    return ceil_div(all_tiles(a), Sizes(a.desc).tiles());
  }
  static std::size_t scratch_bytes(const WinogradDesc& d) noexcept {
    return static_cast<std::size_t>(Sizes(d).end());
  }

  // The results of a panel that are to be finished, 16 channels of a tile at a time.
  template <int kPoints>
  struct Tail {
    const WinogradArgs* a = nullptr;
    std::int64_t position_floats = 0;
    const float* m = nullptr;
    std::int64_t tile = 0, end = 0;  // of the picture
    std::int64_t col = 0, halves = 0;
    std::int64_t half = 0;

    [[gnu::always_inline]] void one() {
      if (tile >= end) return;
      finish<kPoints>(*a, m + half * 16, position_floats, tile, col + half * 16);
      if (++half < halves) return;
      half = 0;
      m += kCols;
      ++tile;
    }
    void all() {
      while (tile < end) one();
    }
  };

  // What is done behind the products of tiles.
  template <int kPoints>
  struct Slot {
    Tail<kPoints>* tail = nullptr;
    const char* weights = nullptr;  // to fetch
    const char* weights_end = nullptr;
    std::int64_t lines = 0;  // behind a product

    template <int kProduct, bool kFirst>
    [[gnu::always_inline]] void behind() {
      // A unit's first step finishes nothing: the last sums before it are being stored.
      if constexpr (kProduct % 2 == 1 && !kFirst) tail->one();
      for (std::int64_t i = 0; i < lines && weights < weights_end; ++i, weights += kLine) {
        __builtin_prefetch(weights, 0, 2);
      }
    }
  };

  template <int kPoints>
  static void run_as(const WinogradArgs& a, std::int64_t task, char* scratch) {
    const Sizes z(a.desc);
    const std::int64_t first = task * z.tiles();
    const std::int64_t count = smaller(z.tiles(), all_tiles(a) - first);
    const std::int64_t units = ceil_div(count, kUnit);
    const std::int64_t position_bytes = z.units * z.unit_points();
    const auto points_of = [&](std::int64_t t) {
      char* const at =
          scratch + t / kTileRows * z.steps * kTileBytes + t % kTileRows * kTileRowBytes;
      return Points{reinterpret_cast<Word*>(at), position_bytes / 4, kTileBytes / 4};
    };
    transform_all<kPoints>(a, first, count, reinterpret_cast<Word*>(scratch + z.zeros_at()),
                           points_of);
    clear<kPoints>(z, count, units * kUnit, points_of);
    multiply<kPoints>(a, z, first, count, scratch);
  }

  // The points of tiles that a last unit has not.
  template <int kPoints, class Place>
  static void clear(const Sizes& z, std::int64_t count, std::int64_t end, const Place& place) {
    for (std::int64_t t = count; t < end; ++t) {
      const Points v = place(t);
      for (std::int64_t i = 0; i < z.positions * z.steps; ++i) {
        Vec::store_words(v.to + i / z.steps * v.position_words + i % z.steps * v.step_words,
                         Vec::zero_words());
      }
    }
  }

  template <int kPoints>
  static void multiply(const WinogradArgs& a, const Sizes& z, std::int64_t first,
                       std::int64_t count, char* scratch) {
    const std::int64_t units = ceil_div(count, kUnit);
    const char* weights = static_cast<const char*>(a.packed);
    Tail<kPoints> tail{&a, z.units * Product::kFloats};
    Slot<kPoints> slot{&tail};
    slot.weights_end = weights + packed_bytes(a.desc);
    slot.lines = ceil_div(Product::kStepBytes / kLine / 4, units);
    typename Product::Pending pending;
    typename Product::Block b;
    b.strip_bytes = z.steps * kTileBytes;
    b.steps = z.steps;
    Tiles::configure();
    for (std::int64_t panel = 0; panel < panels(a.desc); ++panel) {
      float* const m = reinterpret_cast<float*>(scratch + z.m_at()) + panel % 2 * z.m_floats();
      for (std::int64_t p = 0; p < z.positions; ++p, weights += z.weights()) {
        slot.weights = weights + z.weights();
        for (std::int64_t u = 0; u < units; ++u) {
          b.a = scratch + (p * z.units + u) * z.unit_points();
          b.b = weights;
          b.pending = pending.to;
          Product::template multiply<2, Passing::Left>(b, slot);
          pending = {m + (p * z.units + u) * Product::kFloats, 2};
        }
      }
      tail.all();
      const std::int64_t col = panel * kCols;
      tail.m = m;
      tail.tile = first;
      tail.end = first + count;
      tail.col = col;
      tail.halves = ceil_div(smaller(kCols, a.desc.out_channels - col), 16);
    }
    pending.store();
    Tiles::release();
    tail.all();
  }

  static void run(const WinogradArgs& a, std::int64_t task, void* scratch) noexcept {
    auto* const bytes = static_cast<char*>(scratch);
    return points(a.desc) == 3 ? run_as<3>(a, task, bytes) : run_as<4>(a, task, bytes);
  }

  static constexpr WinogradKernel kernel(const char* name, const char* doubled_name) {
    return {name, doubled_name, Level::Amx, refuse, packed_bytes, pack, tasks, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace difflet::cpu
