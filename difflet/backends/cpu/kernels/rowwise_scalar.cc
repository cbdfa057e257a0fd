// Baseline level: no vector instructions beyond those of the compiler.
#include "difflet/backends/cpu/kernels/rowwise_tables.h"
#include "difflet/backends/cpu/kernels/rowwise_vec_scalar.h"
// clang-format off: after the vector type that it is written in.
#include "difflet/backends/cpu/kernels/rowwise_inl.h"
// clang-format on

namespace difflet::cpu {
constinit const RowwiseKernels kRowwiseScalar = make_table(Level::Scalar);
}  // namespace difflet::cpu
