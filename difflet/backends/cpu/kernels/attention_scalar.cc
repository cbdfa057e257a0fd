// Attention of the scalar level (SSE2), for chips without AVX2.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_sse2.h"
#include "difflet/backends/cpu/kernels/attention_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/attention_tables.h"

namespace difflet::cpu {
namespace {

struct Config {
  using Dot = DotF32;
  static constexpr int kRows = 4, kVecs = 2;
  static constexpr std::int64_t kBlockKeys = 256;
  static constexpr int kExpDegree = 5;
};

}  // namespace

constinit const AttentionKernel kAttentionScalar =
    Attention<Config>::kernel("attention.scalar", Level::Scalar);

}  // namespace difflet::cpu
