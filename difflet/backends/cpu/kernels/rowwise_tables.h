// The tables behind rowwise_kernels(), each defined by the translation unit of its level.
#pragma once

#include "difflet/backends/cpu/kernels/rowwise.h"

namespace difflet::cpu {

extern const RowwiseKernels kRowwiseScalar;
extern const RowwiseKernels kRowwiseAvx2;
extern const RowwiseKernels kRowwiseAvx512;
extern const RowwiseKernels kRowwiseAvx512Bf16;

}  // namespace difflet::cpu
