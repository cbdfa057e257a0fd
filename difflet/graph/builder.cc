#include "difflet/graph/builder.h"

#include <cstring>

namespace difflet::graph {
namespace {

template <typename T>
void store(HostTensor& tensor, T value) {
  std::memcpy(tensor.mutable_bytes().data(), &value, sizeof value);
}

}  // namespace

HostTensor scalar_tensor(DType dtype, double value) {
  HostTensor tensor(dtype, Shape{});
  switch (dtype) {
    case DType::F32:
      store(tensor, static_cast<float>(value));
      break;
    case DType::F16:
      store(tensor, f32_to_f16(static_cast<float>(value)));
      break;
    case DType::BF16:
      store(tensor, f32_to_bf16(static_cast<float>(value)));
      break;
    case DType::I32:
      store(tensor, static_cast<std::int32_t>(value));
      break;
    case DType::I64:
      store(tensor, static_cast<std::int64_t>(value));
      break;
    case DType::Bool:
      store(tensor, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
      break;
    case DType::I8:
      store(tensor, static_cast<std::int8_t>(value));
      break;
    case DType::U8:
      store(tensor, static_cast<std::uint8_t>(value));
      break;
  }
  return tensor;
}

NodeId Builder::scalar(DType dtype, double value) {
  return graph_.add(Constant{scalar_tensor(dtype, value)}, {});
}

NodeId Builder::iota(DType dtype, const Shape& shape, std::int64_t axis) {
  return graph_.add(Iota{dtype, shape, axis}, {});
}

NodeId Builder::convert(NodeId x, DType to) {
  return dtype(x) == to ? x : graph_.add(Convert{to}, {x});
}

NodeId Builder::unary(UnaryKind kind, NodeId x) { return graph_.add(Unary{kind}, {x}); }

NodeId Builder::binary(BinaryKind kind, NodeId a, NodeId b) {
  return graph_.add(Binary{kind}, {a, b});
}

NodeId Builder::compare(CompareKind kind, NodeId a, NodeId b) {
  return graph_.add(Compare{kind}, {a, b});
}

NodeId Builder::select(NodeId condition, NodeId a, NodeId b) {
  return graph_.add(Select{}, {condition, a, b});
}

NodeId Builder::reshape(NodeId x, const Shape& to) {
  return shape(x) == to ? x : graph_.add(Reshape{to}, {x});
}

NodeId Builder::transpose(NodeId x, Dims permutation) {
  return graph_.add(Transpose{std::move(permutation)}, {x});
}

NodeId Builder::broadcast(NodeId x, const Shape& to) { return graph_.add(Broadcast{to}, {x}); }

NodeId Builder::slice(NodeId x, std::size_t axis, std::int64_t start, std::int64_t limit) {
  return graph_.add(Slice{static_cast<std::int64_t>(axis), start, limit, 1}, {x});
}

NodeId Builder::concat(std::vector<NodeId> parts, std::size_t axis) {
  return graph_.add(Concat{static_cast<std::int64_t>(axis)}, std::move(parts));
}

NodeId Builder::reduce(ReduceKind kind, NodeId x, Dims axes) {
  return graph_.add(Reduce{kind, std::move(axes)}, {x});
}

NodeId Builder::matmul(NodeId a, NodeId b) { return graph_.add(MatMul{}, {a, b}); }

}  // namespace difflet::graph
