// The attention kernels of each level; attention_kernels() lists them.
#pragma once

#include "difflet/backends/cpu/kernels/attention.h"

namespace difflet::cpu {

extern const AttentionKernel kAttentionScalar, kAttentionAvx2, kAttentionAvx512;
extern const AttentionKernel kAttentionAvx512Bf16;
extern const AttentionKernel kAttentionAmx;
// kAttentionAvx512 ahead of the bf16 products of AVX-512, which run at half its rate on chips with tiles.
extern const AttentionKernel kAttentionAvx512AtAmx;

}  // namespace difflet::cpu
