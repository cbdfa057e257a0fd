// Matrix product with packed weights and a fused epilogue:
//   v = x[M,K] . w[N,K]^T + bias;  v = act(v);  v *= mul;  y[M,N] = residual + v
// accumulated in f32 and rounded once. One LinearKernel per instruction-set level and storage type.
#pragma once

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {

struct LinearDesc {
  std::int64_t n = 0, k = 0;  // any size >= 1; kernels pad inside
  Elem x = Elem::F32, w = Elem::F32, y = Elem::F32;
};

struct LinearArgs {
  std::int64_t m = 0, n = 0, k = 0;
  ConstRows x;                   // [M, K]
  const void* packed = nullptr;  // from pack()
  const float* bias = nullptr;   // [N] or null
  Act act = Act::None;
  ConstRows mul;       // [M, N] or one row [N] (stride 0), or absent
  ConstRows residual;  // [M, N], may be the same memory as y
  Rows y;              // [M, N]
};

struct LinearKernel {
  const char* name;  // e.g. "linear.avx512bf16.bf16"
  Level level;
  // Null when the kernel takes the description, else the reason for the refusal.
  const char* (*refuse)(const LinearDesc&) noexcept;
  std::size_t (*packed_bytes)(const LinearDesc&) noexcept;
  // Packs rows [n0, n1) of w [N, K] (contiguous, Elem `src`); n0 must be a multiple of pack_step.
  // Returns false when a value is NaN or Inf.
  bool (*pack)(const LinearDesc&, const void* w, Elem src, std::int64_t n0, std::int64_t n1,
               void* packed) noexcept;
  std::int64_t pack_step;
  // Number of independent tasks for `threads` threads; any thread may run any task.
  std::int64_t (*tasks)(const LinearArgs&, int threads) noexcept;
  std::size_t (*scratch_bytes)(const LinearArgs&,
                               int threads) noexcept;  // per thread, 64-byte aligned
  void (*run)(const LinearArgs&, std::int64_t task, std::int64_t tasks, void* scratch) noexcept;
};

// All kernels, fastest first; the first that does not refuse and whose level is allowed is used.
struct LinearKernelList {
  const LinearKernel* const* items;
  std::size_t size;
};
LinearKernelList linear_kernels() noexcept;

}  // namespace difflet::cpu
