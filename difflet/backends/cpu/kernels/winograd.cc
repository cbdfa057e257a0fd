#include "difflet/backends/cpu/kernels/winograd.h"

#include "difflet/backends/cpu/kernels/winograd_tables.h"

namespace difflet::cpu {

const WinogradKernel* winograd_kernel(Level level) noexcept {
  return level >= Level::Amx          ? &kWinogradAmx
         : level >= Level::Avx512Bf16 ? &kWinogradAvx512Bf16
                                      : nullptr;
}

}  // namespace difflet::cpu
