// The attention kernels of each level; attention_kernels() lists them.
#pragma once

#include "difflet/backends/cpu/kernels/attention.h"

namespace difflet::cpu {

extern const AttentionKernel kAttentionScalar, kAttentionAvx2, kAttentionAvx512;
extern const AttentionKernel kAttentionAvx512Bf16;

}  // namespace difflet::cpu
