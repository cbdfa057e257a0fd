// The list of linear kernels, fastest first.
#include "difflet/backends/cpu/kernels/linear.h"

#include "difflet/backends/cpu/kernels/linear_tables.h"

namespace difflet::cpu {
namespace {

constexpr const LinearKernel* kKernels[] = {
    &kLinearAmx,
    &kLinearAmxW8a16,
    &kLinearAmxW8a8,
    &kLinearAvx512Bf16,
    &kLinearAvx512Bf16W8a16,
    &kLinearAvx512VnniW8a8,
    &kLinearAvx512Bf16Storage,
    &kLinearAvx512F32,
    &kLinearAvx512W8a16,
    &kLinearAvx512W8a8,
    &kLinearAvx2Bf16,
    &kLinearAvx2F32,
    &kLinearAvx2W8a16,
    &kLinearAvx2W8a8,
    &kLinearScalarBf16,
    &kLinearScalarF32,
    &kLinearScalarW8a16,
    &kLinearScalarW8a8,
};

}  // namespace

LinearKernelList linear_kernels() noexcept {
  return {kKernels, sizeof kKernels / sizeof *kKernels};
}

}  // namespace difflet::cpu
