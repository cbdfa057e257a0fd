// Winograd convolution with the bf16 dot product of AVX512_BF16.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/winograd_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/winograd_tables.h"

namespace difflet::cpu {

constinit const WinogradKernel kWinogradAvx512Bf16 =
    Winograd::kernel("conv.winograd.bf16", "conv.winograd.bf16.doubled", Level::Avx512Bf16);

}  // namespace difflet::cpu
