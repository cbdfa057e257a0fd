// The list of linear kernels, fastest first.
#include "difflet/backends/cpu/kernels/linear.h"

#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

constexpr const LinearKernel* kKernels[] = {
    &kLinearAmx,      &kLinearAvx512Bf16, &kLinearAvx512Bf16Storage, &kLinearAvx512F32,
    &kLinearAvx2Bf16, &kLinearAvx2F32,    &kLinearScalarBf16,        &kLinearScalarF32,
};

}  // namespace

LinearKernelList linear_kernels() noexcept {
  return {kKernels, sizeof kKernels / sizeof *kKernels};
}

}  // namespace difflet::cpu
