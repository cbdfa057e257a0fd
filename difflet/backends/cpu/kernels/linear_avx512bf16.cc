// Matrix products with the bf16 dot product of AVX512_BF16.
#include "difflet/backends/cpu/kernels/vec_avx512.h"
// The rest is written over the Vec above.
#include "difflet/backends/cpu/kernels/vec_math.h"
#include "difflet/backends/cpu/kernels/tile.h"
#include "difflet/backends/cpu/kernels/pack.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct Bf16Config {
  using Dot = DotBf16;
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockRows = 192, kChunk = 512, kBlockPanels = 4;
};

}  // namespace

constinit const LinearKernel kLinearAvx512Bf16 =
    Linear<Bf16Config>::kernel("linear.avx512bf16.bf16", Level::Avx512Bf16);

}  // namespace difflet::cpu
