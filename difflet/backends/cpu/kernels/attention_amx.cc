// Attention with the tiles of AMX.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/attention_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/attention_tables.h"

namespace difflet::cpu {

constinit const AttentionKernel kAttentionAmx =
    AmxAttention<AmxTiles, AmxAttentionConfig>::kernel("attention.amx.bf16");

}  // namespace difflet::cpu
