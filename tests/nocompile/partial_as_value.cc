// Nor an operand of an op.
#include "difflet/ops/tensor.h"

difflet::ops::Tensor activated(difflet::ops::Partial product) {
#ifdef ALLOWED
  return difflet::ops::silu(reduce(product));
#else
  return difflet::ops::silu(product);
#endif
}
