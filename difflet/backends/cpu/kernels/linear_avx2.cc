// Matrix products with AVX2 and FMA; bf16 weights are widened panel by panel.
#include "difflet/backends/cpu/kernels/vec_avx2.h"
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
  static constexpr int kRows = 6, kVecs = 2;
  static constexpr std::int64_t kBlockRows = 192, kChunk = 256, kBlockPanels = 8;
};

struct Bf16Config : F32Config {
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr std::int64_t kChunk = 128;  // pairs
};

}  // namespace

constinit const LinearKernel kLinearAvx2F32 =
    Linear<F32Config>::kernel("linear.avx2.f32", Level::Avx2);
constinit const LinearKernel kLinearAvx2Bf16 =
    Linear<Bf16Config>::kernel("linear.avx2.bf16", Level::Avx2);

}  // namespace difflet::cpu
