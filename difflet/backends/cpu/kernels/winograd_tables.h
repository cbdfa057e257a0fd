// The Winograd kernels of each level; winograd_kernel() chooses.
#pragma once

#include "difflet/backends/cpu/kernels/winograd.h"

namespace difflet::cpu {

extern const WinogradKernel kWinogradAvx512Bf16, kWinogradAmx;

}  // namespace difflet::cpu
