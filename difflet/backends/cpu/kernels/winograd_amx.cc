// Winograd convolution with the tiles of AMX.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/winograd_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/winograd_tables.h"

namespace difflet::cpu {

constinit const WinogradKernel kWinogradAmx = AmxWinograd<AmxTiles, AmxWinogradConfig>::kernel(
    "conv.winograd.amx", "conv.winograd.amx.doubled");

}  // namespace difflet::cpu
