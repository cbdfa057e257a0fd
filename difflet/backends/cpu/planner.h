// Turns a prepared graph (composites that the CPU claims, primitives else) into a Plan. Shape ops
// become views, concatenations are written in place by their producers, everything else is a step.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "difflet/backends/cpu/kernels/rowwise.h"
#include "difflet/backends/cpu/plan.h"
#include "difflet/graph/graph.h"

namespace difflet::cpu {

struct PlanOptions {
  Level level = Level::Scalar;
  int threads = 1;
  bool little_scratch = false;  // of convolutions: not Winograd in f32
};

class Planner {
 public:
  Planner(const graph::Graph& graph, const PlanOptions& options);
  Plan build();

  // ---- used by the per-op planning functions (plan_*.cc) ----
  const graph::Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }
  const RowwiseKernels& rowwise() const { return *rowwise_; }
  const View& view(graph::NodeId id);
  // The operand with its last axis contiguous; copies it first when it is not.
  View rows(graph::NodeId id);
  View dense(graph::NodeId id);  // fully contiguous
  // Where the node's result goes: its place inside a concatenation or output, or a new buffer.
  View result(graph::NodeId id);
  View temporary(DType dtype, const Shape& shape);
  std::uint32_t new_buffer(BufferKind kind, std::size_t bytes, std::size_t index = 0);
  // Adds a step; the views say what it reads and writes. A view may stand there more than once; of a
  // buffer that is read in part, give the view of that part.
  void add_step(graph::NodeId id, std::string kernel, std::function<void(const Run&)> run,
                std::initializer_list<const View*> uses, double flops = 0);
  void use_scratch(std::size_t bytes);  // a thread
  void copy(graph::NodeId id, const View& from, const View& to);
  // The parameter as a plain tensor of `dtype`.
  View plain_param(graph::NodeId id, DType dtype);
  // Buffer that holds `bytes` of the parameter packed by `job`, whose other fields are filled in.
  // `layout` names everything that shapes these bytes.
  std::uint32_t packed_param(graph::NodeId id, WeightJob job, std::string_view layout,
                             std::size_t bytes);
  bool is_param(graph::NodeId id) const;
  // The node is planned as a part of another one's step, which has set its result.
  void take(graph::NodeId id) { taken_.insert(id); }
  // Where the node's result goes: into the memory of `operand`, of the same type, where nothing reads
  // that later; else result().
  View result_over(graph::NodeId id, graph::NodeId operand);
  // A vector operand (bias) as dense f32.
  View f32_vector(graph::NodeId id);
  // Why the kernel of the next step was chosen, or another one was not; for explain().
  void why(const std::string& reason) { why_ += (why_.empty() ? "" : ", ") + reason; }

 private:
  void place_concats();
  void place_operand(graph::NodeId id, const View& where);
  void plan_node(graph::NodeId id);
  bool plan_as_view(graph::NodeId id);
  void plan_outputs();
  void copy_outputs(graph::NodeId id);
  void touch(std::uint32_t buffer);
  double bytes_of(std::initializer_list<const View*> uses) const;
  std::string place_of(graph::NodeId id) const;
  void finish_memory();

  const graph::Graph& graph_;
  PlanOptions options_;
  const RowwiseKernels* rowwise_;
  Plan plan_;
  std::string why_;
  std::vector<View> views_;                  // [node], valid once planned
  std::map<graph::NodeId, View> placement_;  // results that go into somebody else's buffer
  std::map<std::string, std::uint32_t, std::less<>> packed_;  // buffers by name of the piece
  std::set<graph::NodeId> taken_;
  std::map<graph::NodeId, View> dense_copies_, row_copies_, f32_copies_;
};

// Where a step writes its result as a whole: the place itself, or a temporary that finish() copies there.
struct Target {
  View placed, y;
  Target(Planner& p, const View& place) : placed(place), y(place) {
    if (!y.contiguous()) {
      y = p.temporary(y.dtype, y.shape);
    }
  }
  void finish(Planner& p, graph::NodeId id) const {
    if (placed.buffer != y.buffer) {
      p.copy(id, y, placed);
    }
  }
};

// One function an op family, in plan_*.cc; each plans node `id` whose op is given.
void plan_linear(Planner& p, graph::NodeId id, const graph::Linear& op);
void plan_matmul(Planner& p, graph::NodeId id, const graph::MatMul& op);
void plan_attention(Planner& p, graph::NodeId id, const graph::Attention& op);
void plan_conv(Planner& p, graph::NodeId id, const graph::Conv2d& op);
void plan_upsample(Planner& p, graph::NodeId id, const graph::Upsample& op);
// Whether everything that reads the upsampling reads the picture before it instead (plan_conv.cc).
bool folds_into_convolutions(const Planner& p, graph::NodeId id);
void plan_layer_norm(Planner& p, graph::NodeId id, const graph::LayerNorm& op);
void plan_rms_norm(Planner& p, graph::NodeId id, const graph::RmsNorm& op);
void plan_group_norm(Planner& p, graph::NodeId id, const graph::GroupNorm& op);
void plan_group_statistics(Planner& p, graph::NodeId id, const graph::GroupStatistics& op);
void plan_softmax(Planner& p, graph::NodeId id, const graph::Softmax& op);
void plan_rope(Planner& p, graph::NodeId id, const graph::Rope& op);
void plan_activate(Planner& p, graph::NodeId id, const graph::Activate& op);
void plan_unary(Planner& p, graph::NodeId id, const graph::Unary& op);
void plan_binary(Planner& p, graph::NodeId id, const graph::Binary& op);
void plan_convert(Planner& p, graph::NodeId id, const graph::Convert& op);
void plan_compare(Planner& p, graph::NodeId id, const graph::Compare& op);
void plan_select(Planner& p, graph::NodeId id, const graph::Select& op);
void plan_iota(Planner& p, graph::NodeId id, const graph::Iota& op);
void plan_pad(Planner& p, graph::NodeId id, const graph::Pad& op);
void plan_gather(Planner& p, graph::NodeId id, const graph::Gather& op);
void plan_dynamic_slice(Planner& p, graph::NodeId id, const graph::DynamicSlice& op);
void plan_reduce(Planner& p, graph::NodeId id, const graph::Reduce& op);
void plan_argmax(Planner& p, graph::NodeId id, const graph::ArgMax& op);
void plan_rank_index(Planner& p, graph::NodeId id, const graph::RankIndex& op);

// Kernel element type of a dtype; Unsupported for others than f32 and bf16.
Elem elem_of(DType dtype);
Elem weight_elem_of(DType dtype);  // or bytes, for i8
Act act_of(graph::Activation act);
// Copies between views of one shape and dtype, any strides (step body, see copy.cc).
void run_copy(const Run& run, const View& from, const View& to);

}  // namespace difflet::cpu
