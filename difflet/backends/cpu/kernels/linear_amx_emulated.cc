// For tests: the matrix products of linear_amx.cc over emulated tiles.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/amx_tiles_emulated.h"
#include "difflet/backends/cpu/kernels/linear_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/amx_emulated.h"

namespace difflet::cpu {
namespace {

struct SmallConfig {
  static constexpr std::int64_t kBlockRows = 64, kBlockSteps = 4, kChunkSteps = 2;
  static constexpr std::int64_t kManyWeights = 9000, kTallBlockRows = 96;
  static constexpr std::int64_t kGroupPanels = 2, kLeastRows = 32, kVectorRows = 3;
};

}  // namespace

constinit const LinearKernel kLinearAmxEmulated =
    AmxLinear<EmulatedTiles, AmxLinearConfig>::kernel("linear.amx.bf16 emulated");
constinit const LinearKernel kLinearAmxEmulatedSmall =
    AmxLinear<EmulatedTiles, SmallConfig>::kernel("linear.amx.bf16 emulated small");

}  // namespace difflet::cpu
