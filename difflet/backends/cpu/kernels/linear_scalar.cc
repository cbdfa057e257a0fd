// Matrix products of the scalar level (SSE2), for chips without AVX2.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_sse2.h"
#include "difflet/backends/cpu/kernels/linear_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

struct F32Config {
  using Dot = DotF32;
  static constexpr Elem kWeight = Elem::F32;
  static constexpr int kRows = 4, kVecs = 2;
  static constexpr std::int64_t kBlockRows = 96, kChunk = 256, kBlockPanels = 8;
};

struct Bf16Config : F32Config {
  static constexpr Elem kWeight = Elem::Bf16;
  static constexpr std::int64_t kChunk = 128;  // pairs
};

struct W8a16Config : F32Config {
  static constexpr Elem kWeight = Elem::I8;
  static constexpr std::int64_t kChunk = 64;  // fours
};

struct W8a8Config : W8a16Config {
  using Dot = DotI16;
};

}  // namespace

constinit const LinearKernel kLinearScalarF32 =
    Linear<F32Config>::kernel("linear.scalar.f32", Level::Scalar);
constinit const LinearKernel kLinearScalarBf16 =
    Linear<Bf16Config>::kernel("linear.scalar.bf16", Level::Scalar);
constinit const LinearKernel kLinearScalarW8a16 =
    Linear<W8a16Config>::kernel("linear.scalar.w8a16", Level::Scalar);
constinit const LinearKernel kLinearScalarW8a8 =
    Linear<W8a8Config>::kernel("linear.scalar.w8a8", Level::Scalar);

}  // namespace difflet::cpu
