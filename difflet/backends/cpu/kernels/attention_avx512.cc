// Attention with AVX-512 f32 arithmetic; bf16 operands are widened while they are packed.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/attention_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/attention_tables.h"

namespace difflet::cpu {
namespace {

struct Config {
  using Dot = DotF32;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockKeys = 256;
  static constexpr int kExpDegree = 5;
};

}  // namespace

constinit const AttentionKernel kAttentionAvx512 =
    Attention<Config>::kernel("attention.avx512", Level::Avx512);
constinit const AttentionKernel kAttentionAvx512AtAmx =
    Attention<Config>::kernel("attention.avx512", Level::Amx);

}  // namespace difflet::cpu
