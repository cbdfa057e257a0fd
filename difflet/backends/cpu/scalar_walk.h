// Element-by-element access to views of any dtype and strides, for the ops where speed does not
// count.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>

#include "difflet/backends/cpu/plan.h"
#include "difflet/tensor/dtype.h"

namespace difflet::cpu {

inline std::byte* element(const Run& run, const View& v, std::int64_t i) {
  return run.bytes(v.buffer, i * static_cast<std::int64_t>(dtype_bytes(v.dtype)));
}

template <typename T>
T load_as(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <typename T>
void store_as(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

inline float load_float(const Run& run, const View& v, std::int64_t i) {
  const std::byte* p = element(run, v, i);
  switch (v.dtype) {
    case DType::F32:
      return load_as<float>(p);
    case DType::BF16:
      return bf16_to_f32(load_as<std::uint16_t>(p));
    case DType::F16:
      return f16_to_f32(load_as<std::uint16_t>(p));
    case DType::I32:
      return static_cast<float>(load_as<std::int32_t>(p));
    case DType::I64:
      return static_cast<float>(load_as<std::int64_t>(p));
    case DType::Bool:
      return load_as<std::uint8_t>(p) != 0 ? 1.0F : 0.0F;
    case DType::U8:
      return static_cast<float>(load_as<std::uint8_t>(p));
    case DType::I8:
      return static_cast<float>(load_as<std::int8_t>(p));
  }
  return 0;
}

inline void store_float(const Run& run, const View& v, std::int64_t i, float value) {
  std::byte* p = element(run, v, i);
  switch (v.dtype) {
    case DType::F32:
      store_as(p, value);
      return;
    case DType::BF16:
      store_as(p, f32_to_bf16(value));
      return;
    case DType::F16:
      store_as(p, f32_to_f16(value));
      return;
    case DType::I32:
      store_as(p, static_cast<std::int32_t>(value));
      return;
    case DType::I64:
      store_as(p, static_cast<std::int64_t>(value));
      return;
    case DType::Bool:
      store_as(p, static_cast<std::uint8_t>(value != 0));
      return;
    case DType::U8:
      store_as(p, static_cast<std::uint8_t>(value));
      return;
    case DType::I8:
      store_as(p, static_cast<std::int8_t>(value));
      return;
  }
}

inline std::int64_t load_integer(const Run& run, const View& v, std::int64_t i) {
  const std::byte* p = element(run, v, i);
  switch (v.dtype) {
    case DType::I32:
      return load_as<std::int32_t>(p);
    case DType::I64:
      return load_as<std::int64_t>(p);
    case DType::Bool:
    case DType::U8:
      return load_as<std::uint8_t>(p);
    case DType::I8:
      return load_as<std::int8_t>(p);
    default:
      return static_cast<std::int64_t>(load_float(run, v, i));
  }
}

inline void store_integer(const Run& run, const View& v, std::int64_t i, std::int64_t value) {
  std::byte* p = element(run, v, i);
  switch (v.dtype) {
    case DType::I32:
      store_as(p, static_cast<std::int32_t>(value));
      return;
    case DType::I64:
      store_as(p, value);
      return;
    case DType::Bool:
      store_as(p, static_cast<std::uint8_t>(value != 0));
      return;
    case DType::U8:
      store_as(p, static_cast<std::uint8_t>(value));
      return;
    case DType::I8:
      store_as(p, static_cast<std::int8_t>(value));
      return;
    default:
      store_float(run, v, i, static_cast<float>(value));
      return;
  }
}

inline double load_number(const Run& run, const View& v, std::int64_t i) {
  return is_float(v.dtype) ? static_cast<double>(load_float(run, v, i))
                           : static_cast<double>(load_integer(run, v, i));
}

inline void copy_element(const Run& run, const View& from, std::int64_t i, const View& to,
                         std::int64_t j) {
  std::memcpy(element(run, to, j), element(run, from, i), dtype_bytes(to.dtype));
}

// Calls f(offsets) for each element of `shape`, offsets holding the element index of each operand.
template <typename F>
void walk(const Shape& shape, std::initializer_list<const View*> operands, const F& f) {
  constexpr std::size_t kMax = 4;
  std::array<std::int64_t, kMax> offset{};
  std::array<const View*, kMax> view{};
  std::size_t count = 0;
  for (const View* v : operands) {
    view[count] = v;
    offset[count++] = v->offset;
  }
  std::array<std::int64_t, Shape::kMaxRank> index{};
  for (std::int64_t left = shape.elements(); left > 0; --left) {
    f(offset);
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      for (std::size_t o = 0; o < count; ++o) {
        offset[o] += view[o]->strides[axis];
      }
      if (++index[axis] < shape[axis]) {
        break;
      }
      for (std::size_t o = 0; o < count; ++o) {
        offset[o] -= view[o]->strides[axis] * shape[axis];
      }
      index[axis] = 0;
    }
  }
}

}  // namespace difflet::cpu
