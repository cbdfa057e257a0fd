// The Winograd kernel over register tiles of bf16 products (winograd_parts.h has the transforms). A task is a
// run of tiles in the order of their rows:
//   1. its pixels, transformed:   v [position][tile][C]      bf16
//   2. for each panel of 64 output channels and each position, products with the transformed weights
//      [panel][position][C / 2][64] words:                   m [tile][position][64]  f32
//   3. m transformed back, bias and residual added, rounded: y
// K is added up in one go, so that nothing depends on how tiles are cut into tasks.
// Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/winograd_parts.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

struct Winograd : WinogradParts {
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kCols = kVecs * Vec::kLanes;
  static constexpr std::int64_t kAlign = 16;  // words in 64 bytes

  // Tiles of a task: v and m stay near L2, and the weights, read once a task, are worth it.
  static std::int64_t task_tiles(const WinogradDesc& d) { return d.in_channels > 256 ? 48 : 96; }

  // In words: v [position][tile][lda], m [tile][ldm], a pixel of zeros.
  struct Scratch {
    std::int64_t tiles, positions, lda, ldm;

    explicit Scratch(const WinogradDesc& d)
        : tiles(task_tiles(d)),
          positions(std::int64_t{points(d)} * points(d)),
          lda(d.in_channels / 2 + kAlign),  // odd in cache lines: spreads over the sets
          ldm(positions * kCols + kAlign) {}
    std::int64_t m_at() const { return positions * tiles * lda; }
    std::int64_t zeros_at() const { return m_at() + tiles * ldm; }
    std::int64_t words() const { return zeros_at() + lda; }
  };

  static std::int64_t panels(const WinogradDesc& d) { return ceil_div(d.out_channels, kCols); }
  static std::int64_t panel_words(const WinogradDesc& d) { return d.in_channels / 2 * kCols; }

  static std::size_t packed_bytes(const WinogradDesc& d) noexcept {
    return static_cast<std::size_t>(panels(d) * points(d) * points(d) * panel_words(d)) *
           sizeof(Word);
  }

  static bool pack(const WinogradDesc& d, const float* w, void* packed) noexcept {
    const std::int64_t positions = std::int64_t{points(d)} * points(d);
    const std::int64_t steps = d.in_channels / 2;
    const auto place = [=](std::int64_t n, std::int64_t position, std::int64_t s) {
      return (n / kCols * positions + position) * steps * kCols + s * kCols + n % kCols;
    };
    return WinogradParts::pack(d, w, panels(d) * kCols, place, static_cast<Word*>(packed));
  }

  static std::int64_t tasks(const WinogradArgs& a) noexcept {
    return ceil_div(all_tiles(a), task_tiles(a.desc));
  }
  static std::size_t scratch_bytes(const WinogradDesc& d) noexcept {
    return static_cast<std::size_t>(Scratch(d).words()) * sizeof(Word);
  }

  // Products of `count` tiles for one panel.
  static void multiply(const WinogradArgs& a, const Scratch& s, std::int64_t panel,
                       std::int64_t count, Word* scratch) {
    const std::int64_t steps = a.desc.in_channels / 2;
    const std::int64_t calls = ceil_div(count, kRows);
    const std::int64_t call_lines = ceil_div(steps * kCols / kAlign, calls);
    TileArgs t;
    t.b = static_cast<const Word*>(a.packed) + panel * s.positions * steps * kCols;
    t.steps = steps;
    t.lda = s.lda;
    t.ldc = s.ldm;
    t.ahead_every = calls < 4 ? 0 : larger(1, steps / call_lines);
    for (std::int64_t p = 0; p < s.positions; ++p, t.b += steps * kCols) {
      t.ahead = reinterpret_cast<const char*>(t.b + steps * kCols);
      for (std::int64_t r = 0; r < count; r += kRows, t.ahead += call_lines * 64) {
        t.a = scratch + (p * s.tiles + r) * s.lda;
        t.c = floats(scratch + s.m_at() + r * s.ldm + p * kCols);
        tile_rows<DotBf16, kRows, kVecs>(t, smaller(kRows, count - r));
      }
    }
  }

  template <int kPoints>
  static void run_as(const WinogradArgs& a, std::int64_t task, Word* scratch) {
    const Scratch s(a.desc);
    const std::int64_t first = task * s.tiles;
    const std::int64_t count = smaller(s.tiles, all_tiles(a) - first);
    transform_all<kPoints>(a, first, count, scratch + s.zeros_at(), [&](std::int64_t t) {
      return Points{scratch + t * s.lda, s.tiles * s.lda, Vec::kLanes};
    });
    for (std::int64_t panel = 0; panel < panels(a.desc); ++panel) {
      multiply(a, s, panel, count, scratch);
      const std::int64_t end = smaller(a.desc.out_channels, (panel + 1) * kCols);
      for (std::int64_t t = 0; t < count; ++t) {
        const float* m = floats(scratch + s.m_at() + t * s.ldm);
        for (std::int64_t col = panel * kCols; col < end; col += Vec::kLanes, m += Vec::kLanes) {
          finish<kPoints>(a, m, kCols, first + t, col);
        }
      }
    }
  }
  static void run(const WinogradArgs& a, std::int64_t task, void* scratch) noexcept {
    auto* words = static_cast<Word*>(scratch);
    return points(a.desc) == 3 ? run_as<3>(a, task, words) : run_as<4>(a, task, words);
  }

  static constexpr WinogradKernel kernel(const char* name, const char* doubled_name, Level level) {
    return {name, doubled_name, level, refuse, packed_bytes, pack, tasks, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace difflet::cpu
