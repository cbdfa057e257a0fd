// For tests: the attention of attention_amx.cc over emulated tiles.
// The implementation is written over the Vec that comes first.
// clang-format off
#include "difflet/backends/cpu/kernels/vec_avx512.h"
#include "difflet/backends/cpu/kernels/amx_tiles_emulated.h"
#include "difflet/backends/cpu/kernels/attention_amx_impl.h"
// clang-format on
#include "difflet/backends/cpu/kernels/amx_emulated.h"

namespace difflet::cpu {
namespace {

struct SmallConfig {
  static constexpr std::int64_t kGroupRows = 64, kChunkBlocks = 2, kRing = 2, kLeastRows = 96;
};

}  // namespace

constinit const AttentionKernel kAttentionAmxEmulated =
    AmxAttention<EmulatedTiles, AmxAttentionConfig>::kernel("attention.amx.bf16 emulated");
constinit const AttentionKernel kAttentionAmxEmulatedSmall =
    AmxAttention<EmulatedTiles, SmallConfig>::kernel("attention.amx.bf16 emulated small");

}  // namespace difflet::cpu
