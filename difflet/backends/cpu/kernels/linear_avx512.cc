// Matrix products with AVX-512 f32 arithmetic; smaller weights are widened panel by panel.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct F32Config {
  using Dot = DotF32;
  static constexpr Elem kWeight = Elem::F32;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockRows = 96, kChunk = 640, kBlockPanels = 8;
};

struct Bf16Config : F32Config {
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr std::int64_t kChunk = 320;  // pairs
};

struct W8a16Config : F32Config {
  static constexpr Elem kWeight = Elem::I8;
  static constexpr std::int64_t kChunk = 160;  // fours
};

struct W8a8Config : W8a16Config {
  using Dot = DotI16;
  static constexpr std::int64_t kChunk = 320;
};

}  // namespace

constinit const LinearKernel kLinearAvx512F32 =
    Linear<F32Config>::kernel("linear.avx512.f32", Level::Avx512);
constinit const LinearKernel kLinearAvx512Bf16Storage =
    Linear<Bf16Config>::kernel("linear.avx512.bf16", Level::Avx512);
constinit const LinearKernel kLinearAvx512W8a16 =
    Linear<W8a16Config>::kernel("linear.avx512.w8a16", Level::Avx512);
constinit const LinearKernel kLinearAvx512W8a8 =
    Linear<W8a8Config>::kernel("linear.avx512.w8a8", Level::Avx512);

}  // namespace difflet::cpu
