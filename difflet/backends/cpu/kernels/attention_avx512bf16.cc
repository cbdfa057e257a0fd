// Attention with the bf16 dot product of AVX512_BF16; probabilities are rounded to bf16.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/attention_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/attention_tables.h"

namespace difflet::cpu {
namespace {

struct Config {
  using Dot = DotBf16;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockKeys = 512;
  static constexpr int kExpDegree = 3;
};

}  // namespace

constinit const AttentionKernel kAttentionAvx512Bf16 =
    Attention<Config>::kernel("attention.avx512bf16.bf16", Level::Avx512Bf16);

}  // namespace difflet::cpu
