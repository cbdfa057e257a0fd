// AVX-512 F, BW, DQ, VL: vectors of sixteen f32.
#include "difflet/backends/cpu/kernels/rowwise_tables.h"
#include "difflet/backends/cpu/kernels/rowwise_vec_avx512.h"
// clang-format off: after the vector type that it is written in.
#include "difflet/backends/cpu/kernels/rowwise_inl.h"
// clang-format on

namespace difflet::cpu {
constinit const RowwiseKernels kRowwiseAvx512 = make_table(Level::Avx512);
}  // namespace difflet::cpu
