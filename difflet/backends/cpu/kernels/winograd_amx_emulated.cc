// For tests: the Winograd convolution of winograd_amx.cc over emulated tiles.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/amx_tiles_emulated.h"
#include "difflet/backends/cpu/kernels/winograd_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/amx_emulated.h"

namespace difflet::cpu {
namespace {

struct SmallConfig {
  static constexpr std::int64_t kTaskBytes = 1, kMostUnits = 2;
};

}  // namespace

constinit const WinogradKernel kWinogradAmxEmulated =
    AmxWinograd<EmulatedTiles, AmxWinogradConfig>::kernel("conv.winograd.amx emulated", "");
constinit const WinogradKernel kWinogradAmxEmulatedSmall =
    AmxWinograd<EmulatedTiles, SmallConfig>::kernel("conv.winograd.amx emulated small", "");

}  // namespace difflet::cpu
