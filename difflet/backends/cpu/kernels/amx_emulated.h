// The kernels of the amx level over emulated tiles, for tests: the same code, on any chip with
// AVX-512 BF16. Not in the lists of kernels, and not in the product.
#pragma once

#include "difflet/backends/cpu/kernels/attention.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/kernels/winograd.h"

namespace difflet::cpu {

// As in the product, and with blocks so small that every boundary is met soon.
extern const LinearKernel kLinearAmxEmulated, kLinearAmxEmulatedSmall;
extern const LinearKernel kLinearAmxW8a16Emulated, kLinearAmxW8a16EmulatedSmall;
extern const LinearKernel kLinearAmxW8a8Emulated, kLinearAmxW8a8EmulatedSmall;
extern const AttentionKernel kAttentionAmxEmulated, kAttentionAmxEmulatedSmall;
extern const WinogradKernel kWinogradAmxEmulated, kWinogradAmxEmulatedSmall;

}  // namespace difflet::cpu
