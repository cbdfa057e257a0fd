// How the planner places parameters.
#include <utility>

#include <fmt/format.h>

#include "difflet/backends/cpu/planner.h"

namespace difflet::cpu {

using graph::NodeId;

bool Planner::is_param(NodeId id) const {
  return std::holds_alternative<graph::Param>(graph_.node(id).op);
}

View Planner::plain_param(NodeId id, DType dtype) {
  const graph::Node& node = graph_.node(id);
  WeightJob job;
  job.dtype = dtype;
  // Values are rounded to the declared dtype before they are widened.
  const DType declared = node.type.dtype;
  const std::string layout =
      declared == dtype ? fmt::format("plain.{}", dtype_name(dtype))
                        : fmt::format("plain.{}.{}", dtype_name(declared), dtype_name(dtype));
  const std::size_t bytes =
      static_cast<std::size_t>(node.type.shape.elements()) * dtype_bytes(dtype);
  return {.buffer = packed_param(id, std::move(job), layout, bytes),
          .offset = 0,
          .dtype = dtype,
          .shape = node.type.shape,
          .strides = contiguous_strides(node.type.shape)};
}

std::uint32_t Planner::packed_param(NodeId id, WeightJob job, std::string_view layout,
                                    std::size_t bytes) {
  const std::int64_t param = std::get<graph::Param>(graph_.node(id).op).index;
  const std::string& name = graph_.params()[static_cast<std::size_t>(param)].name;
  job.piece = {fmt::format("{}|{}", name, layout), runtime::piece_bytes(bytes)};
  const auto [found, fresh] = packed_.try_emplace(job.piece.name, 0);
  if (fresh) {
    job.param = param;
    job.buffer = found->second = new_buffer(BufferKind::Weight, job.piece.bytes);
    plan_.weights.push_back(std::move(job));
  }
  return found->second;
}

View Planner::f32_vector(NodeId id) {
  if (is_param(id)) {
    return plain_param(id, DType::F32);
  }
  if (views_[id].dtype == DType::F32) {
    return dense(id);
  }
  const auto found = f32_copies_.find(id);
  if (found != f32_copies_.end()) {
    return found->second;
  }
  const View from = dense(id);
  const View to = temporary(DType::F32, from.shape);
  const RowwiseKernels* k = rowwise_;
  add_step(id, "convert",
           [=](const Run& run) {
             k->unary(UnaryFn::Copy, run.at<std::uint16_t>(from), elem_of(from.dtype),
                      run.at<float>(to), Elem::F32, from.shape.elements());
           },
           {&from, &to});
  return f32_copies_[id] = to;
}

}  // namespace difflet::cpu
