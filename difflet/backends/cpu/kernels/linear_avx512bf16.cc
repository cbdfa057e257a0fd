// Matrix products with the bf16 dot product of AVX512_BF16.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct Bf16Config {
  using Dot = DotBf16;
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockRows = 96, kChunk = 640, kBlockPanels = 8;
};

struct W8a16Config : Bf16Config {
  static constexpr Elem kWeight = Elem::I8;
  static constexpr std::int64_t kBlockRows = 192, kChunk = 320;  // fours
};

}  // namespace

constinit const LinearKernel kLinearAvx512Bf16 =
    Linear<Bf16Config>::kernel("linear.avx512bf16.bf16", Level::Avx512Bf16);
constinit const LinearKernel kLinearAvx512Bf16W8a16 =
    Linear<W8a16Config>::kernel("linear.avx512bf16.w8a16", Level::Avx512Bf16);

}  // namespace difflet::cpu
