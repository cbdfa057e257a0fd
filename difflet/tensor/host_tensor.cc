#include "difflet/tensor/host_tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "difflet/base/error.h"

namespace difflet {
namespace {

constexpr std::align_val_t kAlignment{64};

std::size_t byte_size(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(shape.elements()) * dtype_bytes(dtype);
}

std::shared_ptr<std::byte> allocate(DType dtype, const Shape& shape) {
  const std::size_t size = std::max<std::size_t>(byte_size(dtype, shape), 1);
  void* at = ::operator new(size, kAlignment, std::nothrow);
  check(at != nullptr, ErrorCode::ResourceExhausted,
        "cannot allocate {} bytes for a tensor {} of {}", size, shape.str(), dtype_name(dtype));
  return {static_cast<std::byte*>(at), [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

// Calls put(i, value) for each element, the value a float for float types, else an int64.
template <typename Put>
void for_each_value(const HostTensor& t, const Put& put) {
  const auto loop = [&put](auto values, auto convert) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      put(i, convert(values[i]));
    }
  };
  const auto widen = [](auto x) { return static_cast<std::int64_t>(x); };
  switch (t.dtype()) {
    case DType::F32:
      return loop(t.as<float>(), [](float x) { return x; });
    case DType::F16:
      return loop(t.as<std::uint16_t>(), f16_to_f32);
    case DType::BF16:
      return loop(t.as<std::uint16_t>(), bf16_to_f32);
    case DType::I32:
      return loop(t.as<std::int32_t>(), widen);
    case DType::I64:
      return loop(t.as<std::int64_t>(), widen);
    case DType::Bool:
      return loop(t.as<std::uint8_t>(), [](std::uint8_t x) -> std::int64_t { return x != 0; });
    case DType::U8:
      return loop(t.as<std::uint8_t>(), widen);
    case DType::I8:
      return loop(t.as<std::int8_t>(), widen);
  }
}

template <typename T, typename Convert>
void fill_from(const HostTensor& from, HostTensor& to, const Convert& convert) {
  const std::span<T> out = to.mutable_as<T>();
  for_each_value(from, [&](std::size_t i, auto x) { out[i] = convert(x); });
}

std::int8_t checked_i8(std::int64_t x) {
  check(
      x >= std::numeric_limits<std::int8_t>::min() && x <= std::numeric_limits<std::int8_t>::max(),
      ErrorCode::InvalidArgument, "{} does not fit i8", x);
  return static_cast<std::int8_t>(x);
}

std::int32_t checked_i32(std::int64_t x) {
  check(x >= std::numeric_limits<std::int32_t>::min() &&
            x <= std::numeric_limits<std::int32_t>::max(),
        ErrorCode::InvalidArgument, "{} does not fit i32", x);
  return static_cast<std::int32_t>(x);
}

std::uint8_t checked_u8(std::int64_t x) {
  check(x >= 0 && x <= std::numeric_limits<std::uint8_t>::max(), ErrorCode::InvalidArgument,
        "{} does not fit u8", x);
  return static_cast<std::uint8_t>(x);
}

template <typename T>
HostTensor copy_values(DType dtype, const Shape& shape, std::span<const T> values) {
  HostTensor t(dtype, shape);
  check(static_cast<std::int64_t>(values.size()) == shape.elements(), ErrorCode::InvalidArgument,
        "{} values for a tensor of shape {}", values.size(), shape.str());
  std::ranges::copy(values, t.mutable_as<T>().begin());
  return t;
}

}  // namespace

HostTensor::HostTensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const std::shared_ptr<std::byte> memory = allocate(dtype, shape);
  bytes_ = {memory.get(), byte_size(dtype, shape)};
  std::memset(memory.get(), 0, bytes_.size());
  owner_ = memory;
  writable_ = true;
}

HostTensor::HostTensor(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  check(bytes.size() == byte_size(dtype, shape), ErrorCode::InvalidArgument,
        "{} bytes for a tensor {} of {}, which takes {}", bytes.size(), shape.str(),
        dtype_name(dtype), byte_size(dtype, shape));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_bytes(dtype) != 0) {
    *this = HostTensor(dtype, shape);
    std::ranges::copy(bytes, mutable_bytes().begin());
    return;
  }
  dtype_ = dtype;
  shape_ = shape;
  bytes_ = bytes;
  owner_ = std::move(owner);
}

HostTensor HostTensor::from(const Shape& shape, std::span<const float> values) {
  return copy_values(DType::F32, shape, values);
}

HostTensor HostTensor::from(const Shape& shape, std::span<const std::int32_t> values) {
  return copy_values(DType::I32, shape, values);
}

std::span<std::byte> HostTensor::mutable_bytes() {
  require(writable_ && owner_.use_count() == 1, "write to a tensor whose bytes are shared");
  return {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
}

HostTensor HostTensor::to(DType dtype) const {
  if (dtype == dtype_) {
    return *this;
  }
  check(is_float(dtype) == is_float(dtype_), ErrorCode::InvalidArgument,
        "no conversion from {} to {}", dtype_name(dtype_), dtype_name(dtype));
  HostTensor out(dtype, shape_);
  switch (dtype) {
    case DType::F32:
      fill_from<float>(*this, out, [](auto x) { return static_cast<float>(x); });
      break;
    case DType::F16:
      fill_from<std::uint16_t>(*this, out,
                               [](auto x) { return f32_to_f16(static_cast<float>(x)); });
      break;
    case DType::BF16:
      fill_from<std::uint16_t>(*this, out,
                               [](auto x) { return f32_to_bf16(static_cast<float>(x)); });
      break;
    case DType::I32:
      fill_from<std::int32_t>(*this, out,
                              [](auto x) { return checked_i32(static_cast<std::int64_t>(x)); });
      break;
    case DType::I64:
      fill_from<std::int64_t>(*this, out, [](auto x) { return static_cast<std::int64_t>(x); });
      break;
    case DType::Bool:
      fill_from<std::uint8_t>(*this, out, [](auto x) -> std::uint8_t { return x != 0 ? 1 : 0; });
      break;
    case DType::U8:
      fill_from<std::uint8_t>(*this, out,
                              [](auto x) { return checked_u8(static_cast<std::int64_t>(x)); });
      break;
    case DType::I8:
      fill_from<std::int8_t>(*this, out,
                             [](auto x) { return checked_i8(static_cast<std::int64_t>(x)); });
      break;
  }
  return out;
}

HostTensor HostTensor::reshaped(const Shape& shape) const {
  check(shape.elements() == shape_.elements(), ErrorCode::InvalidArgument,
        "cannot reshape {} to {}", shape_.str(), shape.str());
  HostTensor out = *this;
  out.shape_ = shape;
  return out;
}

std::vector<float> HostTensor::to_floats() const {
  std::vector<float> out(bytes_.size() / dtype_bytes(dtype_));
  for_each_value(*this, [&out](std::size_t i, auto x) { out[i] = static_cast<float>(x); });
  return out;
}

HostTensor HostTensor::narrow(std::size_t axis, std::int64_t start, std::int64_t extent) const {
  check(axis < shape_.rank() && start >= 0 && extent >= 0 && start <= shape_[axis] - extent,
        ErrorCode::InvalidArgument, "part [{}, +{}) along axis {} is outside {}", start, extent,
        axis, shape_.str());
  HostTensor out(dtype_, shape_.with(axis, extent));
  if (out.bytes_.empty()) {
    return out;
  }
  std::size_t inner = dtype_bytes(dtype_);  // bytes of one step along `axis`
  for (std::size_t i = axis + 1; i < shape_.rank(); ++i) {
    inner *= static_cast<std::size_t>(shape_[i]);
  }
  const std::size_t stride = inner * static_cast<std::size_t>(shape_[axis]);
  const std::size_t length = inner * static_cast<std::size_t>(extent);
  const std::byte* from = bytes_.data() + inner * static_cast<std::size_t>(start);
  std::byte* to = out.mutable_bytes().data();
  for (std::size_t done = 0; done < out.bytes_.size(); done += length, from += stride) {
    std::memcpy(to + done, from, length);
  }
  return out;
}

}  // namespace difflet
