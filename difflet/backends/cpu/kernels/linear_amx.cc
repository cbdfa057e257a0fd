// Matrix products with the tiles of AMX.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/linear_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {

constinit const LinearKernel kLinearAmx =
    AmxLinear<AmxBf16, AmxTiles, AmxLinearConfig>::kernel("linear.amx.bf16");
constinit const LinearKernel kLinearAmxW8a16 =
    AmxLinear<AmxW8a16, AmxTiles, AmxLinearConfig>::kernel("linear.amx.w8a16");
constinit const LinearKernel kLinearAmxW8a8 =
    AmxLinear<AmxW8a8, AmxTiles, AmxLinearConfig>::kernel("linear.amx.w8a8");

}  // namespace difflet::cpu
