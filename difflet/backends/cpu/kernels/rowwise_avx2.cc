// AVX2 with FMA: vectors of eight f32.
#include "difflet/backends/cpu/kernels/rowwise_tables.h"
#include "difflet/backends/cpu/kernels/rowwise_vec_avx2.h"
// clang-format off: after the vector type that it is written in.
#include "difflet/backends/cpu/kernels/rowwise_inl.h"
// clang-format on

namespace difflet::cpu {
constinit const RowwiseKernels kRowwiseAvx2 = make_table(Level::Avx2);
}  // namespace difflet::cpu
