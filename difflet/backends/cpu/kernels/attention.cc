// The list of attention kernels, fastest first.
#include "difflet/backends/cpu/kernels/attention.h"

#include "difflet/backends/cpu/kernels/attention_tables.h"

namespace difflet::cpu {
namespace {

constexpr const AttentionKernel* kKernels[] = {&kAttentionAmx,        &kAttentionAvx512AtAmx,
                                               &kAttentionAvx512Bf16, &kAttentionAvx512,
                                               &kAttentionAvx2,       &kAttentionScalar};

}  // namespace

AttentionKernelList attention_kernels() noexcept {
  return {kKernels, sizeof kKernels / sizeof *kKernels};
}

}  // namespace difflet::cpu
