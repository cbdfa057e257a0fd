// What the Winograd kernels have in common, written once over the Vec of the including unit: the transforms
// of pictures, weights and results. How the products in between are made, and how their operands lie in
// memory, is up to each.
//
// A tile of the result is 2x2 pixels; of the picture it reads kPoints x kPoints: 4x4, or 3x3 where the
// doubling of the picture is folded in (its rows come in equal pairs, so that one of the four points of
// an axis is zero and another needs no sum). The transformed pixels, and so the products, have as many
// positions.
// Private to the kernel units; include after one vec_*.h.
#pragma once

#include "difflet/backends/cpu/kernels/tile.h"
#include "difflet/backends/cpu/kernels/winograd.h"

namespace difflet::cpu {
namespace {  // NOLINT(google-build-namespaces): each unit must own its copy

// One axis of the transforms, for kPoints of 4 and of 3 (doubled).
template <int kPoints>
struct Axis;

template <>
struct Axis<4> {
  // Point i of pixels d.
  static Vec::F pixels(const Vec::F (&d)[4], int i) {
    return i == 0   ? Vec::sub(d[0], d[2])
           : i == 1 ? Vec::add(d[1], d[2])
           : i == 2 ? Vec::sub(d[2], d[1])
                    : Vec::sub(d[1], d[3]);
  }
  static float taps(float a, float b, float c, int i) {
    return i == 0 ? a : i == 1 ? 0.5F * (a + b + c) : i == 2 ? 0.5F * (a - b + c) : c;
  }
  static Vec::F first(const Vec::F (&m)[4]) { return Vec::add(m[0], Vec::add(m[1], m[2])); }
  static Vec::F second(const Vec::F (&m)[4]) { return Vec::sub(Vec::sub(m[1], m[2]), m[3]); }
};

template <>
struct Axis<3> {
  static Vec::F pixels(const Vec::F (&d)[3], int i) {
    return i == 0 ? Vec::sub(d[0], d[1]) : i == 1 ? d[1] : Vec::sub(d[1], d[2]);
  }
  static float taps(float a, float b, float c, int i) {
    return i == 0 ? a : i == 1 ? a + b + c : c;
  }
  static Vec::F first(const Vec::F (&m)[3]) { return Vec::add(m[0], m[1]); }
  static Vec::F second(const Vec::F (&m)[3]) { return Vec::sub(m[1], m[2]); }
};

inline std::uint32_t bf16_bits(float v) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
}

struct WinogradParts {
  static constexpr std::int64_t kStep = 2 * Vec::kLanes;  // channels transformed at a time

  static int points(const WinogradDesc& d) { return d.before == Before::Doubling ? 3 : 4; }

  static const char* refuse(const WinogradDesc& d) noexcept {
    if (d.in_channels % kStep != 0 || d.out_channels % Vec::kLanes != 0) {
      return "it takes input channels in 32s and output channels in 16s";
    }
    if (d.in_channels < kStep || d.out_channels < 2 * Vec::kLanes) {
      return "the transforms would cost more than the products that they save";
    }
    return nullptr;
  }

  // Input channel at the lower half of word s of K: transform() packs the even channels of 32 before
  // the odd ones. The upper half is two further on.
  static std::int64_t channel_at(std::int64_t s) {
    const std::int64_t within = s % Vec::kLanes;
    return s / Vec::kLanes * kStep + (within < 8 ? 4 * within : 4 * (within - 8) + 1);
  }

  // The positions of one 3x3 filter.
  template <int kPoints>
  static void transform_filter(const float* g, float* u) {
    float t[kPoints][3];
    for (int i = 0; i < kPoints; ++i) {
      for (int j = 0; j < 3; ++j) t[i][j] = Axis<kPoints>::taps(g[j], g[3 + j], g[6 + j], i);
    }
    for (int i = 0; i < kPoints; ++i) {
      for (int j = 0; j < kPoints; ++j) {
        u[i * kPoints + j] = Axis<kPoints>::taps(t[i][0], t[i][1], t[i][2], j);
      }
    }
  }

  // Words of K of all columns and positions, to where place(column, position, word) says; columns beyond the
  // output channels are zero.
  // NOLINTBEGIN(readability-non-const-parameter): written
  template <int kPoints, class Place>
  static bool pack_as(const WinogradDesc& d, const float* w, std::int64_t columns,
                      const Place& place, Word* to) {
    // NOLINTEND(readability-non-const-parameter)
    constexpr int kPositions = kPoints * kPoints;
    bool finite = true;
    for (std::int64_t n = 0; n < columns; ++n) {
      for (std::int64_t s = 0; s < d.in_channels / 2; ++s) {
        float low[kPositions] = {};
        float high[kPositions] = {};
        if (n < d.out_channels) {
          const float* g = w + (n * d.in_channels + channel_at(s)) * 9;
          for (int i = 0; i < 9; ++i) {
            finite = finite && __builtin_isfinite(g[i]) && __builtin_isfinite(g[18 + i]);
          }
          transform_filter<kPoints>(g, low);
          transform_filter<kPoints>(g + 18, high);
        }
        for (int p = 0; p < kPositions; ++p) {
          to[place(n, p, s)] = static_cast<Word>(bf16_bits(low[p]) | bf16_bits(high[p]) << 16U);
        }
      }
    }
    return finite;
  }
  template <class Place>
  static bool pack(const WinogradDesc& d, const float* w, std::int64_t columns, const Place& place,
                   Word* to) {
    return points(d) == 3 ? pack_as<3>(d, w, columns, place, to)
                          : pack_as<4>(d, w, columns, place, to);
  }

  static std::int64_t tiles_across(const WinogradArgs& a) { return ceil_div(a.out_width, 2); }
  static std::int64_t all_tiles(const WinogradArgs& a) {
    return ceil_div(a.out_height, 2) * tiles_across(a);
  }

  // Pixel (i, j) of a tile, or the zeros.
  template <int kPoints>
  static void find_pixels(const WinogradArgs& a, std::int64_t tile, const Word* zeros,
                          const Word* (&at)[kPoints * kPoints]) {
    constexpr std::int64_t kTile = kPoints == 3 ? 1 : 2;  // its size in pixels of x
    const std::int64_t top = tile / tiles_across(a) * kTile - a.pad_top;
    const std::int64_t left = tile % tiles_across(a) * kTile - a.pad_left;
    for (int i = 0; i < kPoints; ++i) {
      for (int j = 0; j < kPoints; ++j) {
        const std::int64_t r = top + i;
        const std::int64_t c = left + j;
        const bool inside = r >= 0 && c >= 0 && r < a.height && c < a.width;
        at[i * kPoints + j] =
            inside ? reinterpret_cast<const Word*>(a.x + (r * a.width + c) * a.desc.in_channels)
                   : zeros;
      }
    }
  }

  // Row i of the points of 32 channels, from which both axes are left to sum: even or odd channels.
  template <int kPoints, class Part>
  static void sum_axes(const Vec::W (&w)[kPoints * kPoints], int i, const Part& part,
                       Vec::F (&out)[kPoints]) {
    Vec::F row[kPoints];
#pragma GCC unroll 4
    for (int j = 0; j < kPoints; ++j) {
      Vec::F column[kPoints];
#pragma GCC unroll 4
      for (int r = 0; r < kPoints; ++r) column[r] = part(w[r * kPoints + j]);
      row[j] = Axis<kPoints>::pixels(column, i);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kPoints; ++j) out[j] = Axis<kPoints>::pixels(row, j);
  }

  // Where the points of a tile go: 32 channels take kLanes words.
  struct Points {
    Word* to = nullptr;
    std::int64_t position_words = 0;  // to the next position
    std::int64_t step_words = 0;      // to the next 32 channels
  };

  // The points of one tile.
  template <int kPoints>
  static void transform(const WinogradArgs& a, const Word* const (&at)[kPoints * kPoints],
                        const Points& v) {
    Word* to = v.to;
    for (std::int64_t c = 0; c < a.desc.in_channels / 2; c += Vec::kLanes, to += v.step_words) {
      Vec::W w[kPoints * kPoints];
#pragma GCC unroll 16
      for (int p = 0; p < kPoints * kPoints; ++p) w[p] = Vec::load_words(at[p] + c);
#pragma GCC unroll 4
      for (int i = 0; i < kPoints; ++i) {
        Vec::F even[kPoints];
        Vec::F odd[kPoints];
        sum_axes<kPoints>(w, i, [](Vec::W x) { return Vec::low_bf16(x); }, even);
        sum_axes<kPoints>(w, i, [](Vec::W x) { return Vec::high_bf16(x); }, odd);
#pragma GCC unroll 4
        for (int j = 0; j < kPoints; ++j) {
          Vec::store_words(to + (i * kPoints + j) * v.position_words,
                           Vec::pack_bf16(even[j], odd[j]));
        }
      }
    }
  }

  // The points of tiles [first, first + count), of which place(tile) says where they go. `zeros`: a pixel.
  template <int kPoints, class Place>
  static void transform_all(const WinogradArgs& a, std::int64_t first, std::int64_t count,
                            Word* zeros, const Place& place) {
    for (std::int64_t i = 0; i < a.desc.in_channels / 2; i += Vec::kLanes) {
      Vec::store_words(zeros + i, Vec::zero_words());
    }
    for (std::int64_t t = 0; t < count; ++t) {
      const Word* at[kPoints * kPoints];
      find_pixels<kPoints>(a, first + t, zeros, at);
      transform<kPoints>(a, at, place(t));
    }
  }

  // 16 output channels of one tile, of which position p is at m + p * position_floats.
  template <int kPoints>
  static void finish(const WinogradArgs& a, const float* m, std::int64_t position_floats,
                     std::int64_t tile, std::int64_t col) {
    Vec::F top[kPoints];
    Vec::F bottom[kPoints];
#pragma GCC unroll 4
    for (int j = 0; j < kPoints; ++j) {
      Vec::F column[kPoints];
#pragma GCC unroll 4
      for (int i = 0; i < kPoints; ++i)
        column[i] = Vec::load(m + (i * kPoints + j) * position_floats);
      top[j] = Axis<kPoints>::first(column);
      bottom[j] = Axis<kPoints>::second(column);
    }
    const Vec::F pixel[4] = {Axis<kPoints>::first(top), Axis<kPoints>::second(top),
                             Axis<kPoints>::first(bottom), Axis<kPoints>::second(bottom)};
    const Vec::F bias = a.bias == nullptr ? Vec::zero() : Vec::load(a.bias + col);
    const std::int64_t row = tile / tiles_across(a) * 2;
    const std::int64_t column = tile % tiles_across(a) * 2;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if (row + i / 2 >= a.out_height || column + i % 2 >= a.out_width) continue;
      const std::int64_t at =
          ((row + i / 2) * a.out_width + column + i % 2) * a.desc.out_channels + col;
      Vec::F v = Vec::add(pixel[i], bias);
      if (a.residual != nullptr) v = Vec::add(v, Vec::load_bf16(a.residual + at));
      Vec::store_bf16(a.y + at, v);
    }
  }
};

}  // namespace
}  // namespace difflet::cpu
