// An unreduced product of one rank is no value that could be added to one.
#include "difflet/ops/tensor.h"

difflet::ops::Tensor residual(difflet::ops::Tensor x, difflet::ops::Partial product) {
#ifdef ALLOWED
  return x + reduce(product);
#else
  return x + product;
#endif
}
