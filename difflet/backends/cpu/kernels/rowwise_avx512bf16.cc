// AVX-512 with BF16: one instruction rounds sixteen f32 to bf16.
#include "difflet/backends/cpu/kernels/rowwise_tables.h"
#include "difflet/backends/cpu/kernels/rowwise_vec_avx512.h"
// clang-format off: after the vector type that it is written in.
#include "difflet/backends/cpu/kernels/rowwise_inl.h"
// clang-format on

namespace difflet::cpu {
constinit const RowwiseKernels kRowwiseAvx512Bf16 = make_table(Level::Avx512Bf16);
}  // namespace difflet::cpu
