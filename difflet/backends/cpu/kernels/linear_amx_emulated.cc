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
  static constexpr std::int64_t kManyBytes = 18000, kTallBlockRows = 96, kWholeBytes = 20480;
  static constexpr std::int64_t kGroupPanels = 2, kLeastRows = 32, kVectorRows = 3;
};

}  // namespace

template <class Kind>
using Emulated = AmxLinear<Kind, EmulatedTiles, AmxLinearConfig>;
template <class Kind>
using Small = AmxLinear<Kind, EmulatedTiles, SmallConfig>;

constinit const LinearKernel kLinearAmxEmulated =
    Emulated<AmxBf16>::kernel("linear.amx.bf16 emulated");
constinit const LinearKernel kLinearAmxEmulatedSmall =
    Small<AmxBf16>::kernel("linear.amx.bf16 emulated small");
constinit const LinearKernel kLinearAmxW8a16Emulated =
    Emulated<AmxW8a16>::kernel("linear.amx.w8a16 emulated");
constinit const LinearKernel kLinearAmxW8a16EmulatedSmall =
    Small<AmxW8a16>::kernel("linear.amx.w8a16 emulated small");
constinit const LinearKernel kLinearAmxW8a8Emulated =
    Emulated<AmxW8a8>::kernel("linear.amx.w8a8 emulated");
constinit const LinearKernel kLinearAmxW8a8EmulatedSmall =
    Small<AmxW8a8>::kernel("linear.amx.w8a8 emulated small");

}  // namespace difflet::cpu
