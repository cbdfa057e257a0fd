// The linear kernels of each level; linear_kernels() lists them.
#pragma once

#include "difflet/backends/cpu/kernels/linear.h"

namespace difflet::cpu {

extern const LinearKernel kLinearScalarF32, kLinearScalarBf16;
extern const LinearKernel kLinearScalarW8a16, kLinearScalarW8a8;
extern const LinearKernel kLinearAvx2F32, kLinearAvx2Bf16, kLinearAvx2W8a16, kLinearAvx2W8a8;
extern const LinearKernel kLinearAvx512F32, kLinearAvx512Bf16Storage;
extern const LinearKernel kLinearAvx512W8a16, kLinearAvx512W8a8;
extern const LinearKernel kLinearAvx512VnniW8a8;
extern const LinearKernel kLinearAvx512Bf16, kLinearAvx512Bf16W8a16;
extern const LinearKernel kLinearAmx, kLinearAmxW8a16, kLinearAmxW8a8;

}  // namespace difflet::cpu
