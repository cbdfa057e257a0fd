// Matrix products with AVX-512 f32 arithmetic; bf16 weights are widened panel by panel.
#include "difflet/backends/cpu/kernels/vec_avx512.h"
// The rest is written over the Vec above.
#include "difflet/backends/cpu/kernels/vec_math.h"
#include "difflet/backends/cpu/kernels/tile.h"
#include "difflet/backends/cpu/kernels/pack.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct F32Config {
  using Dot = DotF32;
  static constexpr Elem kWeight = Elem::F32;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockRows = 192, kChunk = 512, kBlockPanels = 4;
};

struct Bf16Config : F32Config {
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr std::int64_t kChunk = 256;  // pairs
};

}  // namespace

constinit const LinearKernel kLinearAvx512F32 =
    Linear<F32Config>::kernel("linear.avx512.f32", Level::Avx512);
constinit const LinearKernel kLinearAvx512Bf16Storage =
    Linear<Bf16Config>::kernel("linear.avx512.bf16", Level::Avx512);

}  // namespace difflet::cpu
