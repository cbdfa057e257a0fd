#include "difflet/backends/reference/value.h"

#include <algorithm>

namespace difflet::reference {
namespace {

template <typename T>
void load(const HostTensor& tensor, std::vector<std::int64_t>& to) {
  std::ranges::copy(tensor.as<T>(), to.begin());
}

template <typename T, typename From, typename Convert>
void store(const std::vector<From>& from, HostTensor& to, const Convert& convert) {
  std::ranges::transform(from, to.mutable_as<T>().begin(), convert);
}

}  // namespace

Value::Value(const graph::Type& t) : type(t) {
  const auto size = static_cast<std::size_t>(t.shape.elements());
  is_float() ? floats.resize(size) : ints.resize(size);
}

Value Value::rounded() && {
  switch (type.dtype) {
    case DType::F32:
    case DType::I64:
      break;
    case DType::BF16:
      std::ranges::transform(floats, floats.begin(), round_bf16);
      break;
    case DType::F16:
      std::ranges::transform(floats, floats.begin(),
                             [](float f) { return f16_to_f32(f32_to_f16(f)); });
      break;
    case DType::I32:
      std::ranges::transform(ints, ints.begin(), [](std::int64_t i) {
        return static_cast<std::int64_t>(static_cast<std::int32_t>(i));
      });
      break;
    case DType::Bool:
      std::ranges::transform(ints, ints.begin(),
                             [](std::int64_t i) -> std::int64_t { return i != 0 ? 1 : 0; });
      break;
    case DType::I8:
      std::ranges::transform(ints, ints.begin(), [](std::int64_t i) {
        return static_cast<std::int64_t>(static_cast<std::int8_t>(i));
      });
      break;
    case DType::U8:
      std::ranges::transform(ints, ints.begin(), [](std::int64_t i) {
        return static_cast<std::int64_t>(static_cast<std::uint8_t>(i));
      });
      break;
  }
  return std::move(*this);
}

Value from_host(const HostTensor& tensor) {
  Value value;
  value.type = {tensor.dtype(), tensor.shape()};
  if (value.is_float()) {
    value.floats = tensor.to_floats();
    return value;
  }
  value.ints.resize(static_cast<std::size_t>(tensor.shape().elements()));
  switch (tensor.dtype()) {
    case DType::I32:
      load<std::int32_t>(tensor, value.ints);
      break;
    case DType::I64:
      load<std::int64_t>(tensor, value.ints);
      break;
    case DType::I8:
      load<std::int8_t>(tensor, value.ints);
      break;
    default:
      load<std::uint8_t>(tensor, value.ints);
      break;
  }
  return std::move(value).rounded();
}

HostTensor to_host(const Value& value) {
  HostTensor out(value.type.dtype, value.type.shape);
  switch (value.type.dtype) {
    case DType::F32:
      store<float>(value.floats, out, [](float f) { return f; });
      break;
    case DType::F16:
      store<std::uint16_t>(value.floats, out, f32_to_f16);
      break;
    case DType::BF16:
      store<std::uint16_t>(value.floats, out, f32_to_bf16);
      break;
    case DType::I32:
      store<std::int32_t>(value.ints, out,
                          [](std::int64_t i) { return static_cast<std::int32_t>(i); });
      break;
    case DType::I64:
      store<std::int64_t>(value.ints, out, [](std::int64_t i) { return i; });
      break;
    case DType::I8:
      store<std::int8_t>(value.ints, out,
                         [](std::int64_t i) { return static_cast<std::int8_t>(i); });
      break;
    case DType::Bool:
    case DType::U8:
      store<std::uint8_t>(value.ints, out,
                          [](std::int64_t i) { return static_cast<std::uint8_t>(i); });
      break;
  }
  return out;
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t i = shape.rank(); i-- > 1;) {
    strides[i - 1] = strides[i] * shape[i];
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& result) {
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides(result.rank(), 0);
  const std::size_t lead = result.rank() - shape.rank();
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    strides[lead + i] = shape[i] == 1 ? 0 : own[i];
  }
  return strides;
}

std::vector<std::int64_t> offsets(const Shape& shape, std::span<const std::int64_t> strides,
                                  std::int64_t start) {
  std::vector<std::int64_t> out{start};
  out.reserve(static_cast<std::size_t>(shape.elements()));
  // Grows one axis at a time: the offsets of the axes so far, then each repeated along the next.
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    std::vector<std::int64_t> next;
    next.reserve(out.size() * static_cast<std::size_t>(shape[axis]));
    for (const std::int64_t base : out) {
      for (std::int64_t i = 0; i < shape[axis]; ++i) {
        next.push_back(base + i * strides[axis]);
      }
    }
    out = std::move(next);
  }
  return out;
}

}  // namespace difflet::reference
