// The rules of shape inference, one overload an op. Used by infer() only.
#pragma once

#include <initializer_list>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/graph/graph.h"

namespace difflet::graph {

class Inference {
 public:
  Inference(std::string_view op, std::span<const Type> operands, const Graph& graph)
      : op_(op), in_(operands), graph_(graph) {}

  Type operator()(const Input& op) const;
  Type operator()(const Param& op) const;
  Type operator()(const Constant& op) const;
  Type operator()(const RankIndex& op) const;
  Type operator()(const Iota& op) const;
  Type operator()(const Unary& op) const;
  Type operator()(const Binary& op) const;
  Type operator()(const Compare& op) const;
  Type operator()(const Select& op) const;
  Type operator()(const Convert& op) const;
  Type operator()(const Reshape& op) const;
  Type operator()(const Transpose& op) const;
  Type operator()(const Broadcast& op) const;
  Type operator()(const Slice& op) const;
  Type operator()(const DynamicSlice& op) const;
  Type operator()(const Concat& op) const;
  Type operator()(const Pad& op) const;
  Type operator()(const Gather& op) const;
  Type operator()(const Reduce& op) const;
  Type operator()(const ArgMax& op) const;
  Type operator()(const MatMul& op) const;
  Type operator()(const Conv2d& op) const;
  Type operator()(const AllReduce& op) const;
  Type operator()(const AllGather& op) const;
  Type operator()(const ReduceScatter& op) const;
  Type operator()(const AllToAll& op) const;
  Type operator()(const RingShift& op) const;
  Type operator()(const Linear& op) const;
  Type operator()(const Activate& op) const;
  Type operator()(const LayerNorm& op) const;
  Type operator()(const RmsNorm& op) const;
  Type operator()(const GroupNorm& op) const;
  Type operator()(const GroupStatistics& op) const;
  Type operator()(const Softmax& op) const;
  Type operator()(const Attention& op) const;
  Type operator()(const Rope& op) const;
  Type operator()(const Upsample& op) const;

 private:
  // Throws InvalidArgument: "op: what; operands ...".
  template <typename... Args>
  void expect(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) [[unlikely]] {
      refuse(fmt::format(format, std::forward<Args>(args)...));
    }
  }
  [[noreturn]] void refuse(const std::string& what) const;

  void arity(std::size_t expected) const;
  std::size_t axis(std::int64_t axis, const Shape& shape) const;
  std::int64_t times(std::int64_t a, std::int64_t b) const;
  std::int64_t plus(std::int64_t a, std::int64_t b) const;
  Shape shape(const Dims& dims) const;
  // The NumPy broadcast of two shapes.
  Shape broadcast(const Shape& a, const Shape& b) const;
  // `from` broadcasts to `to` without widening it.
  static bool fits(const Shape& from, const Shape& to) noexcept;
  // Operand `i`, called `name`, has x's dtype or f32 and the shape given.
  void weight(std::size_t i, std::string_view name, const Shape& shape) const;
  // Operand `i`, called `name`, has the dtype of operand 0 and broadcasts to `shape`.
  void broadcasts(std::size_t i, std::string_view name, const Shape& shape) const;
  const Type& floating(std::size_t i) const;
  // [B, groups, 2] of operand 0, which must be [B, ..., C] with channels that divide into groups.
  Type group_statistics(std::int64_t groups) const;
  void group(spmd::Axis mesh_axis, std::int64_t size) const;

  std::string_view op_;
  std::span<const Type> in_;
  const Graph& graph_;
};

}  // namespace difflet::graph
