// Matrix product with packed weights and a fused epilogue:
//   v = x[M,K] . w[N,K]^T + bias;  v = act(v);  v *= mul;  y[M,N] = residual + v
// accumulated in f32 and rounded once. Weights of bytes have one scale a row:
//   products of floats    v = (x . w^T) * scale + bias
//   products of bytes     v = (q . w^T) * s * scale + bias, where q and s are x * smooth a row at a time
//                         (quantize.h), added up in 32-bit integers
// A row of x with NaN or Inf gives NaN. One LinearKernel per instruction-set level and kind of product.
#pragma once

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {

enum class Products : std::uint8_t { Floats, Bytes };

struct LinearDesc {
  std::int64_t n = 0, k = 0;  // any size >= 1; kernels pad inside
  Elem x = Elem::F32, w = Elem::F32, y = Elem::F32;
  Products products = Products::Floats;  // Bytes: with a w of bytes only
};

struct LinearArgs {
  std::int64_t m = 0, n = 0, k = 0;
  ConstRows x;                    // [M, K]
  const void* packed = nullptr;   // from pack()
  const float* scale = nullptr;   // [N], of weights of bytes; else null
  const float* smooth = nullptr;  // [K] or null, where x is multiplied as bytes
  const float* bias = nullptr;    // [N] or null
  Act act = Act::None;
  ConstRows mul;       // [M, N] or one row [N] (stride 0), or absent
  ConstRows residual;  // [M, N], may be the same memory as y
  Rows y;              // [M, N]
};

struct LinearKernel {
  const char* name = nullptr;  // e.g. "linear.avx512bf16.bf16", ".w8a16", ".w8a8"
  Level level = Level::Scalar;
  // Null when the kernel takes the description, else the reason for the refusal.
  const char* (*refuse)(const LinearDesc&) noexcept = nullptr;
  std::size_t (*packed_bytes)(const LinearDesc&) noexcept = nullptr;
  // Packs rows [n0, n1) of w [N, K] (contiguous, Elem `src`: any float, or bytes for bytes); n0 must be a
  // multiple of pack_step. Returns false when a value is NaN or Inf.
  bool (*pack)(const LinearDesc&, const void* w, Elem src, std::int64_t n0, std::int64_t n1,
               void* packed) noexcept = nullptr;
  std::int64_t pack_step = 1;
  // Number of independent tasks for `threads` threads; any thread may run any task.
  std::int64_t (*tasks)(const LinearArgs&, int threads) noexcept = nullptr;
  std::size_t (*scratch_bytes)(const LinearArgs&,
                               int threads) noexcept = nullptr;  // per thread, 64-byte aligned
  void (*run)(const LinearArgs&, std::int64_t task, std::int64_t tasks,
              void* scratch) noexcept = nullptr;
  // What it multiplies, coarsely: weights of bytes or of floats, and how.
  bool bytes = false;
  Products products = Products::Floats;
};

// All kernels, fastest first; the first that does not refuse and whose level is allowed is used.
struct LinearKernelList {
  const LinearKernel* const* items;
  std::size_t size;
};
LinearKernelList linear_kernels() noexcept;

}  // namespace difflet::cpu
