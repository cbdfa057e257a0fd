// Arithmetic on host tensors as torch does it: each elementary result rounded to the tensor's
// dtype.
#pragma once

#include "difflet/tensor/dtype.h"
#include "difflet/tensor/host_tensor.h"

namespace difflet::sampling {

// The nearest value that `dtype` holds.
inline float rounded(float value, DType dtype) noexcept {
  switch (dtype) {
    case DType::BF16:
      return round_bf16(value);
    case DType::F16:
      return f16_to_f32(f32_to_f16(value));
    case DType::F32:
    case DType::I32:
    case DType::I64:
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      break;
  }
  return value;
}

// Element i of the result, of this dtype, is f(i).
template <typename F>
HostTensor make_tensor(DType dtype, const Shape& shape, const F& f) {
  HostTensor out(DType::F32, shape);
  const std::span<float> values = out.mutable_as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = f(i);
  }
  return out.to(dtype);
}

}  // namespace difflet::sampling
