#include "difflet/backends/cpu/planner.h"

#include <algorithm>

#include "difflet/base/error.h"

namespace difflet::cpu {

using graph::NodeId;

Elem elem_of(DType dtype) {
  check(dtype == DType::F32 || dtype == DType::BF16, ErrorCode::Unsupported,
        "the cpu backend computes in f32 and bf16, not {}", dtype_name(dtype));
  return dtype == DType::F32 ? Elem::F32 : Elem::Bf16;
}

Elem weight_elem_of(DType dtype) { return dtype == DType::I8 ? Elem::I8 : elem_of(dtype); }

Act act_of(graph::Activation act) {
  using A = graph::Activation;
  switch (act) {
    case A::None:
      return Act::None;
    case A::GeluTanh:
      return Act::GeluTanh;
    case A::GeluErf:
      return Act::GeluErf;
    case A::QuickGelu:
      return Act::QuickGelu;
    case A::Silu:
      return Act::Silu;
    case A::Relu:
      return Act::Relu;
  }
  return Act::None;
}

Planner::Planner(const graph::Graph& graph, const PlanOptions& options)
    : graph_(graph), options_(options), rowwise_(&rowwise_kernels(options.level)) {
  views_.resize(graph.nodes().size());
}

namespace {

// Bounds far above any machine, below which no size in bytes overflows, padding included. A program's
// text may come from a damaged file.
constexpr std::size_t kMaxTensorBytes = std::size_t{1} << 44U;
constexpr std::size_t kMaxProgramBytes = std::size_t{1} << 52U;

void check_sizes(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes()) {
    const auto elements = static_cast<std::size_t>(node.type.shape.elements());
    if (elements > kMaxTensorBytes / dtype_bytes(node.type.dtype)) {
      fail(ErrorCode::ResourceExhausted, "a tensor {} is larger than any memory", node.type.str());
    }
  }
}

}  // namespace

Plan Planner::build() {
  check_sizes(graph_);
  plan_outputs();
  place_concats();
  for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
    try {
      plan_node(id);
    } catch (Error& e) {
      if (const auto scope = graph_.scope_name(graph_.node(id).scope); !scope.empty()) {
        e.add_context(scope);
      }
      throw;
    }
    copy_outputs(id);
  }
  finish_memory();
  std::stable_sort(plan_.weights.begin(), plan_.weights.end(),
                   [](const WeightJob& a, const WeightJob& b) { return a.param < b.param; });
  return std::move(plan_);
}

std::vector<runtime::WeightPiece> Plan::pieces() const {
  std::vector<runtime::WeightPiece> all;
  all.reserve(weights.size());
  for (const WeightJob& job : weights) {
    all.push_back(job.piece);
  }
  return all;
}

// Every output gets a buffer that the caller provides; its node writes there when it can.
void Planner::plan_outputs() {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const NodeId node = graph_.outputs()[i].node;
    const graph::Type& type = graph_.node(node).type;
    View v{.buffer = new_buffer(BufferKind::Output, 0, i),
           .offset = 0,
           .dtype = type.dtype,
           .shape = type.shape,
           .strides = contiguous_strides(type.shape)};
    plan_.outputs.push_back(v);
    place_operand(node, v);
  }
}

// Outputs that are this node and lie elsewhere; at once, so that its memory is free after its last reader.
void Planner::copy_outputs(NodeId id) {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    if (graph_.outputs()[i].node != id) {
      continue;
    }
    const View from = view(id);
    const View& to = plan_.outputs[i];
    if (from.buffer != to.buffer || from.offset != to.offset) {
      copy(id, from, to);
    }
  }
}

namespace {

// Ops whose result is a view of their operand (or of a parameter, constant or input).
bool makes_no_buffer(const graph::Op& op) {
  return std::visit(
      graph::overloaded{
          [](const graph::Input&) { return true; }, [](const graph::Param&) { return true; },
          [](const graph::Constant&) { return true; }, [](const graph::Slice&) { return true; },
          [](const graph::Transpose&) { return true; },
          [](const graph::Broadcast&) { return true; }, [](const auto&) { return false; }},
      op);
}

}  // namespace

// Gives `id` the place `where` unless it has one already or is a view of something else. A reshape
// passes the place on to its operand.
void Planner::place_operand(NodeId id, const View& where) {
  const graph::Node& node = graph_.node(id);
  if (placement_.contains(id) || makes_no_buffer(node.op)) {
    return;
  }
  if (std::holds_alternative<graph::Reshape>(node.op)) {
    const NodeId operand = node.inputs[0];
    if (const auto inner = reshaped(where, graph_.node(operand).type.shape)) {
      place_operand(operand, *inner);
    }
    return;
  }
  if (!where.rows_contiguous()) {
    return;
  }
  placement_.emplace(id, where);
}

// From the last node to the first, so that a concatenation inside another knows its place before
// its own operands are placed.
void Planner::place_concats() {
  for (NodeId id = static_cast<NodeId>(graph_.nodes().size()); id-- > 0;) {
    const graph::Node& node = graph_.node(id);
    const auto* op = std::get_if<graph::Concat>(&node.op);
    if (op == nullptr) {
      continue;
    }
    const View whole = result(id);
    placement_.insert_or_assign(id, whole);
    const auto axis = static_cast<std::size_t>(op->axis);
    std::int64_t start = 0;
    for (const NodeId operand : node.inputs) {
      const std::int64_t extent = graph_.node(operand).type.shape[axis];
      place_operand(operand, sliced(whole, axis, start, extent, 1));
      start += extent;
    }
  }
}

std::uint32_t Planner::new_buffer(BufferKind kind, std::size_t bytes, std::size_t index) {
  Buffer b;
  b.kind = kind;
  b.life = {.bytes = bytes, .first = -1, .last = -1};
  b.index = index;
  plan_.buffers.push_back(b);
  return static_cast<std::uint32_t>(plan_.buffers.size() - 1);
}

View Planner::temporary(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * dtype_bytes(dtype);
  return {.buffer = new_buffer(BufferKind::Arena, bytes),
          .offset = 0,
          .dtype = dtype,
          .shape = shape,
          .strides = contiguous_strides(shape)};
}

View Planner::result(NodeId id) {
  const auto placed = placement_.find(id);
  if (placed != placement_.end()) {
    views_[id] = placed->second;
  } else {
    const graph::Type& type = graph_.node(id).type;
    views_[id] = temporary(type.dtype, type.shape);
  }
  return views_[id];
}

View Planner::result_over(NodeId id, NodeId operand) {
  const View v = view(operand);
  const graph::Op& maker = graph_.node(operand).op;
  bool last = plan_.buffers[v.buffer].kind == BufferKind::Arena && v.contiguous() &&
              !makes_no_buffer(maker) && !std::holds_alternative<graph::Reshape>(maker) &&
              !placement_.contains(operand) && !placement_.contains(id) &&
              graph_.node(operand).type == graph_.node(id).type;
  for (NodeId user = operand + 1; last && user < graph_.nodes().size(); ++user) {
    const graph::Node& node = graph_.node(user);
    if (std::find(node.inputs.begin(), node.inputs.end(), operand) == node.inputs.end()) {
      continue;
    }
    // What is a view, or may be folded into a later step, reads later than its own place.
    last = user <= id && !makes_no_buffer(node.op) &&
           !std::holds_alternative<graph::Reshape>(node.op) &&
           !std::holds_alternative<graph::Upsample>(node.op);
  }
  const auto outputs = graph_.outputs();
  last = last && std::none_of(outputs.begin(), outputs.end(),
                              [&](const auto& output) { return output.node == operand; });
  if (last) {
    views_[id] = v;
  }
  return last ? v : result(id);
}

void Planner::touch(std::uint32_t buffer) {
  Lifetime& life = plan_.buffers[buffer].life;
  const auto step = static_cast<std::int64_t>(plan_.steps.size());
  if (life.first < 0) {
    life.first = step;
  }
  life.last = step;
}

// "transformer_blocks.0.attn to_q.weight to_q.bias : bf16[1, 512, 3072]"
std::string Planner::place_of(NodeId id) const {
  const graph::Node& node = graph_.node(id);
  std::string place(graph_.scope_name(node.scope));
  for (const NodeId input : node.inputs) {
    if (const auto* param = std::get_if<graph::Param>(&graph_.node(input).op)) {
      std::string_view name = graph_.params()[static_cast<std::size_t>(param->index)].name;
      const std::string_view scope = graph_.scope_name(node.scope);
      if (!scope.empty() && name.starts_with(scope)) {
        name.remove_prefix(std::min(scope.size() + 1, name.size()));
      }
      place += fmt::format("{}{}", place.empty() ? "" : " ", name);
    }
  }
  return fmt::format("{} : {}", place, node.type.str());
}

// Packed weights have no view of their own: a view of rank 0 of their buffer means all of it.
double Planner::bytes_of(std::initializer_list<const View*> uses) const {
  double bytes = 0;
  for (const auto* it = uses.begin(); it != uses.end(); ++it) {
    const View& v = **it;
    if (std::any_of(uses.begin(), it, [&v](const View* u) { return same_view(*u, v); })) {
      continue;
    }
    const Buffer& buffer = plan_.buffers[v.buffer];
    const bool packed = buffer.kind == BufferKind::Weight && v.shape.rank() == 0;
    bytes += packed ? static_cast<double>(buffer.life.bytes) : view_bytes(v);
  }
  return bytes;
}

void Planner::add_step(NodeId id, std::string kernel, std::function<void(const Run&)> run,
                       std::initializer_list<const View*> uses, double flops) {
  for (const View* v : uses) {
    touch(v->buffer);
  }
  const double bytes = bytes_of(uses);
  const std::string reason = std::exchange(why_, "");
  plan_.steps.push_back(
      {fmt::format("{} {}{}{}", kernel, place_of(id), reason.empty() ? "" : "; ", reason), flops,
       bytes, std::move(run)});
}

void Planner::use_scratch(std::size_t bytes) {
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, (bytes + 63) / 64 * 64);
}

void Planner::copy(NodeId id, const View& from, const View& to) {
  add_step(id, "copy", [from, to](const Run& run) { run_copy(run, from, to); }, {&from, &to});
}

// A parameter becomes a plain tensor the first time that something reads it as one.
const View& Planner::view(NodeId id) {
  if (is_param(id)) {
    views_[id] = plain_param(id, graph_.node(id).type.dtype);
  }
  return views_[id];
}

View Planner::rows(NodeId id) {
  if (view(id).rows_contiguous()) {
    return views_[id];
  }
  const auto found = row_copies_.find(id);
  if (found != row_copies_.end()) {
    return found->second;
  }
  return row_copies_[id] = dense(id);
}

View Planner::dense(NodeId id) {
  if (view(id).contiguous()) {
    return views_[id];
  }
  const auto found = dense_copies_.find(id);
  if (found != dense_copies_.end()) {
    return found->second;
  }
  const View to = temporary(views_[id].dtype, views_[id].shape);
  copy(id, views_[id], to);
  return dense_copies_[id] = to;
}

bool Planner::plan_as_view(NodeId id) {
  const graph::Node& node = graph_.node(id);
  const auto operand = [&]() -> const View& { return view(node.inputs[0]); };
  return std::visit(graph::overloaded{[&](const graph::Slice& op) {
                                        const Shape& shape = node.type.shape;
                                        const auto axis = static_cast<std::size_t>(op.axis);
                                        views_[id] =
                                            sliced(operand(), axis, op.start, shape[axis], op.step);
                                        return true;
                                      },
                                      [&](const graph::Transpose& op) {
                                        views_[id] = transposed(operand(), op.permutation);
                                        return true;
                                      },
                                      [&](const graph::Broadcast& op) {
                                        views_[id] = broadcast_to(operand(), op.shape);
                                        return true;
                                      },
                                      [&](const graph::Reshape& op) {
                                        if (const auto v = reshaped(operand(), op.shape)) {
                                          views_[id] = *v;
                                        } else {
                                          views_[id] = *reshaped(dense(node.inputs[0]), op.shape);
                                        }
                                        return true;
                                      },
                                      [](const auto&) { return false; }},
                    node.op);
}

namespace {

void plan_concat(Planner& p, NodeId id) {
  const graph::Node& node = p.graph().node(id);
  const View whole = p.result(id);
  const auto axis = static_cast<std::size_t>(std::get<graph::Concat>(node.op).axis);
  std::int64_t start = 0;
  for (const NodeId operand : node.inputs) {
    const View from = p.view(operand);
    const View to = sliced(whole, axis, start, from.shape[axis], 1);
    start += from.shape[axis];
    const bool in_place = from.buffer == to.buffer && from.offset == to.offset;
    if (!in_place && from.shape.elements() > 0) {
      p.copy(id, from, to);
    }
  }
}

[[noreturn]] void refuse_collective(std::string_view name) {
  fail(ErrorCode::Unsupported,
       "{}: the cpu backend runs one rank; use the reference backend for a group", name);
}

}  // namespace

void Planner::plan_node(NodeId id) {
  if (taken_.contains(id) || plan_as_view(id)) {
    return;
  }
  const graph::Node& node = graph_.node(id);
  const auto shape_view = [&](std::uint32_t buffer) {
    return View{.buffer = buffer,
                .offset = 0,
                .dtype = node.type.dtype,
                .shape = node.type.shape,
                .strides = contiguous_strides(node.type.shape)};
  };
  std::visit(graph::overloaded{
                 [&](const graph::Input&) {
                   const auto inputs = graph_.inputs();
                   const auto at = std::find(inputs.begin(), inputs.end(), id) - inputs.begin();
                   views_[id] =
                       shape_view(new_buffer(BufferKind::Input, 0, static_cast<std::size_t>(at)));
                 },
                 [&](const graph::Param&) {},  // made on use: packed, plain or both
                 [&](const graph::Constant& op) {
                   plan_.constants.push_back(op.value);
                   views_[id] =
                       shape_view(new_buffer(BufferKind::Constant, 0, plan_.constants.size() - 1));
                 },
                 [&](const graph::Concat&) { plan_concat(*this, id); },
                 [&](const graph::RankIndex& op) { plan_rank_index(*this, id, op); },
                 [&](const graph::Iota& op) { plan_iota(*this, id, op); },
                 [&](const graph::Unary& op) { plan_unary(*this, id, op); },
                 [&](const graph::Binary& op) { plan_binary(*this, id, op); },
                 [&](const graph::Compare& op) { plan_compare(*this, id, op); },
                 [&](const graph::Select& op) { plan_select(*this, id, op); },
                 [&](const graph::Convert& op) { plan_convert(*this, id, op); },
                 [&](const graph::DynamicSlice& op) { plan_dynamic_slice(*this, id, op); },
                 [&](const graph::Pad& op) { plan_pad(*this, id, op); },
                 [&](const graph::Gather& op) { plan_gather(*this, id, op); },
                 [&](const graph::Reduce& op) { plan_reduce(*this, id, op); },
                 [&](const graph::ArgMax& op) { plan_argmax(*this, id, op); },
                 [&](const graph::MatMul& op) { plan_matmul(*this, id, op); },
                 [&](const graph::Conv2d& op) { plan_conv(*this, id, op); },
                 [&](const graph::Linear& op) { plan_linear(*this, id, op); },
                 [&](const graph::Activate& op) { plan_activate(*this, id, op); },
                 [&](const graph::LayerNorm& op) { plan_layer_norm(*this, id, op); },
                 [&](const graph::RmsNorm& op) { plan_rms_norm(*this, id, op); },
                 [&](const graph::GroupNorm& op) { plan_group_norm(*this, id, op); },
                 [&](const graph::GroupStatistics& op) { plan_group_statistics(*this, id, op); },
                 [&](const graph::Softmax& op) { plan_softmax(*this, id, op); },
                 [&](const graph::Attention& op) { plan_attention(*this, id, op); },
                 [&](const graph::Rope& op) { plan_rope(*this, id, op); },
                 [&](const graph::Upsample& op) { plan_upsample(*this, id, op); },
                 [&](const graph::AllReduce& op) { refuse_collective(op.kName); },
                 [&](const graph::AllGather& op) { refuse_collective(op.kName); },
                 [&](const graph::ReduceScatter& op) { refuse_collective(op.kName); },
                 [&](const graph::AllToAll& op) { refuse_collective(op.kName); },
                 [&](const graph::RingShift& op) { refuse_collective(op.kName); },
                 [&](const graph::Reshape&) {},
                 [&](const graph::Transpose&) {},
                 [&](const graph::Broadcast&) {},
                 [&](const graph::Slice&) {}},
             node.op);
}

void Planner::finish_memory() {
  std::vector<Lifetime> lives;
  std::vector<std::size_t> owner;
  std::size_t all = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& b = plan_.buffers[i];
    check(b.life.bytes <= kMaxProgramBytes - all, ErrorCode::ResourceExhausted,
          "the tensors of program '{}' are larger than any memory", graph_.name());
    all += b.life.bytes;
    if (b.kind == BufferKind::Arena && b.life.first >= 0) {
      lives.push_back(b.life);
      owner.push_back(i);
    }
  }
  const MemoryPlan memory = plan_memory(lives);
  plan_.arena_offset.assign(plan_.buffers.size(), 0);
  for (std::size_t i = 0; i < owner.size(); ++i) {
    plan_.arena_offset[owner[i]] = memory.offset[i];
  }
  plan_.arena_bytes = memory.bytes;
}

}  // namespace difflet::cpu
