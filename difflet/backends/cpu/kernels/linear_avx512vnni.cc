// Matrix products of bytes with AVX512_VNNI.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct W8a8Config {
  using Dot = DotI8;
  static constexpr Elem kWeight = Elem::I8;
  static constexpr int kRows = 6, kVecs = 4;
  static constexpr std::int64_t kBlockRows = 144, kChunk = 768, kBlockPanels = 8;  // fours
};

}  // namespace

constinit const LinearKernel kLinearAvx512VnniW8a8 =
    Linear<W8a8Config>::kernel("linear.avx512vnni.w8a8", Level::Avx512Vnni);

}  // namespace difflet::cpu
