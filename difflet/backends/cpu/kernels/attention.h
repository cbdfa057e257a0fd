// Scaled dot-product attention in one pass over the keys (never a full score matrix):
//   y[b, t, h, :] = softmax(scale * q[b, t, h, :] . k[b, s, h, :] + bias[h, t, s]) . v[b, s, h, :]
#pragma once

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/cpu/kernels/view.h"

namespace difflet::cpu {

// A [B, L, H, D] operand read in place; the D elements of a head are contiguous. Strides in elements.
struct Heads {
  const void* data = nullptr;
  std::int64_t batch = 0, token = 0, head = 0;
};

struct AttentionArgs {
  std::int64_t batch = 1, heads = 1, q_len = 0, k_len = 0, head_dim = 0;  // any size >= 1
  std::int64_t kv_heads = 1;  // heads % kv_heads == 0 (grouped-query attention)
  Elem elem = Elem::F32;      // of q, k, v and y
  Heads q, k, v;
  void* y = nullptr;  // same addressing as Heads
  std::int64_t y_batch = 0, y_token = 0, y_head = 0;
  float scale = 1.0F;
  bool causal = false;  // key s is seen by query t when s <= t + (k_len - q_len)
  // Keys [key_min[b*q_len+t], key_max[...]) are seen; null: all. A query that sees no key gives zeros.
  const std::int32_t* key_min = nullptr;
  const std::int32_t* key_max = nullptr;
  // Added to the scaled scores, f32 [bias_batch, H, Tq, Tk] with strides (0: broadcast); null: none.
  // -inf entries mask a key.
  const float* bias = nullptr;
  std::int64_t bias_batch = 0, bias_head = 0, bias_query = 0;
};

struct AttentionKernel {
  const char* name;  // e.g. "attention.avx512bf16.bf16"
  Level level;
  const char* (*refuse)(const AttentionArgs&) noexcept;
  std::int64_t (*tasks)(const AttentionArgs&, int threads) noexcept;
  std::size_t (*scratch_bytes)(const AttentionArgs&, int threads) noexcept;  // per thread
  void (*run)(const AttentionArgs&, std::int64_t task, std::int64_t tasks, void* scratch) noexcept;
};

struct AttentionKernelList {
  const AttentionKernel* const* items;
  std::size_t size;
};
AttentionKernelList attention_kernels() noexcept;

}  // namespace difflet::cpu
