// Kernels that work row by row or element by element: norms with fused modulation, qk-norm with
// rotary embedding, softmax, activations, broadcasting arithmetic, conversion. One table a level.
// Every function works on rows [r0, r1) so that the caller splits the work over threads; statistics
// and arithmetic are f32 whatever the storage, with one rounding at the store. y may be the memory
// of x when both have the same element type and strides.
#pragma once

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {

// y = norm(x) * weight + bias, then * (1 + scale) + shift; absent operands are skipped.
struct NormArgs {
  std::int64_t rows = 0, width = 0;
  ConstRows x;
  Rows y;
  ConstRows weight, bias;  // one row [width], stride 0
  ConstRows scale, shift;  // row r uses scale row r / rows_per_mod
  std::int64_t rows_per_mod = 1;
  float eps = 1e-6F;
};

// Rotary embedding of [rows = B*L*H] heads of `width` elements, optionally after an RMS norm.
// Row r is head r % heads of token t = r / heads and starts at x + t * x_token + head * x.stride;
// its angles are row t % tokens of cos and sin, f32 [tokens, width / 2].
// Interleaved turns elements (2i, 2i + 1), Half turns (i, i + width / 2).
enum class RopePairs : std::uint8_t { Interleaved, Half };
struct RopeArgs {
  std::int64_t rows = 0, width = 0, heads = 1, tokens = 0;
  ConstRows x;  // stride between heads; token stride below
  Rows y;
  std::int64_t x_token = 0, y_token = 0;  // elements between tokens of x and y
  const float* cos = nullptr;
  const float* sin = nullptr;  // null: no rotation (norm alone)
  RopePairs pairs = RopePairs::Interleaved;
  ConstRows norm_weight;  // absent: no norm
  float eps = 1e-6F;
};

// y = x + gate * z.
struct GateArgs {
  std::int64_t rows = 0, width = 0;
  ConstRows x, z;
  ConstRows gate;  // row r uses gate row r / rows_per_gate
  Rows y;          // may be the memory of x or of z
  std::int64_t rows_per_gate = 1;
};

// Group norm of channels-last [B, P, C] (P pixels), then `act`. Two phases because the statistics
// cover all pixels: sums() per pixel range, finish() once a batch item, then apply().
struct GroupNormArgs {
  std::int64_t batch = 1, pixels = 0, channels = 0, groups = 1;
  ConstRows x;  // rows = B*P
  Rows y;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float eps = 1e-6F;
  Act act = Act::None;
};

enum class UnaryFn : std::uint8_t {
  Neg,
  Exp,
  Log,
  Sin,
  Cos,
  Sqrt,
  Rsqrt,
  Tanh,
  Erf,
  Abs,
  Sigmoid,
  GeluTanh,
  GeluErf,
  QuickGelu,
  Silu,
  Relu,
  Floor,
  Copy,
};
enum class BinaryFn : std::uint8_t { Add, Sub, Mul, Div, Max, Min, Pow };

// One side of a binary run. Step 1 walks the elements from data on, step 0 repeats the one there.
struct BinaryInput {
  const void* data = nullptr;
  Elem elem = Elem::F32;
  int step = 1;
};

struct RowwiseKernels {
  Level level;
  void (*layer_norm)(const NormArgs&, std::int64_t r0, std::int64_t r1) noexcept;
  void (*rms_norm)(const NormArgs&, std::int64_t r0, std::int64_t r1) noexcept;
  void (*rope)(const RopeArgs&, std::int64_t r0, std::int64_t r1) noexcept;
  // A row of -inf gives NaN, as in torch.
  void (*softmax)(ConstRows x, Rows y, std::int64_t width, std::int64_t r0,
                  std::int64_t r1) noexcept;
  void (*gate_add)(const GateArgs&, std::int64_t r0, std::int64_t r1) noexcept;
  // Adds each group's sum and sum of squares over pixels [p0, p1) of batch item b to
  // sums[groups][2] (f64, so that large pictures keep their digits).
  void (*group_norm_sums)(const GroupNormArgs&, std::int64_t b, std::int64_t p0, std::int64_t p1,
                          double* sums) noexcept;
  // mean_rstd: [groups][2] of batch item b.
  void (*group_norm_apply)(const GroupNormArgs&, std::int64_t b, std::int64_t p0, std::int64_t p1,
                           const float* mean_rstd) noexcept;
  // Contiguous runs of n elements. Copy converts; Max and Min give NaN when an operand is NaN.
  void (*unary)(UnaryFn, const void* x, Elem xe, void* y, Elem ye, std::int64_t n) noexcept;
  void (*binary)(BinaryFn, const BinaryInput& a, const BinaryInput& b, void* y, Elem ye,
                 std::int64_t n) noexcept;
};

// mean_rstd [groups][2] from the sums [groups][2] of all pixels of one batch item.
void group_norm_finish(const GroupNormArgs&, const double* sums, float* mean_rstd) noexcept;

const RowwiseKernels& rowwise_kernels(Level level) noexcept;

}  // namespace difflet::cpu
