#include "difflet/graph/cost.h"

namespace difflet::graph {
namespace {

constexpr double kNorm = 8;
constexpr double kActivation = 8;
constexpr double kRotation = 3;

class Flops {
 public:
  Flops(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  double operator()(const Input&) const { return 0; }
  double operator()(const Param&) const { return 0; }
  double operator()(const Constant&) const { return 0; }
  double operator()(const RankIndex&) const { return 0; }
  double operator()(const Iota&) const { return 0; }
  double operator()(const Unary&) const { return result(); }
  double operator()(const Binary&) const { return result(); }
  double operator()(const Compare&) const { return result(); }
  double operator()(const Select&) const { return result(); }
  double operator()(const Convert&) const { return result(); }
  double operator()(const Reshape&) const { return 0; }
  double operator()(const Transpose&) const { return 0; }
  double operator()(const Broadcast&) const { return 0; }
  double operator()(const Slice&) const { return 0; }
  double operator()(const DynamicSlice&) const { return 0; }
  double operator()(const Concat&) const { return 0; }
  double operator()(const Pad&) const { return 0; }
  double operator()(const Gather&) const { return 0; }
  double operator()(const Reduce&) const { return elements(shape(0)); }
  double operator()(const ArgMax&) const { return elements(shape(0)); }
  double operator()(const MatMul&) const { return 2 * result() * extent(shape(0).dim(-1)); }
  double operator()(const Conv2d&) const {
    const Shape& w = shape(1);  // [O, C/groups, kh, kw]
    return 2 * result() * elements(w) / extent(w[0]);
  }
  double operator()(const AllReduce&) const { return 0; }
  double operator()(const AllGather&) const { return 0; }
  double operator()(const ReduceScatter&) const { return 0; }
  double operator()(const AllToAll&) const { return 0; }
  double operator()(const RingShift&) const { return 0; }
  double operator()(const Linear&) const { return 2 * result() * extent(shape(0).dim(-1)); }
  double operator()(const Activate&) const { return kActivation * result(); }
  double operator()(const LayerNorm&) const { return kNorm * result(); }
  double operator()(const RmsNorm&) const { return kNorm * result(); }
  double operator()(const GroupNorm& op) const {
    return (op.statistics ? kNorm / 2 : kNorm) * result();
  }
  double operator()(const GroupStatistics&) const { return kNorm / 2 * elements(shape(0)); }
  double operator()(const Softmax&) const { return kNorm * result(); }
  double operator()(const Attention&) const {
    const Shape& q = shape(0);  // [B, T, H, D]
    const Shape& v = shape(2);  // [B, S, G, E]
    const double scores = extent(q[0]) * extent(q[1]) * extent(q[2]) * extent(v[1]);
    return 2 * scores * (extent(q[3]) + extent(v[3]));
  }
  double operator()(const Rope& op) const { return (kRotation + (op.norm ? kNorm : 0)) * result(); }
  double operator()(const Upsample&) const { return 0; }

 private:
  static double extent(std::int64_t n) { return static_cast<double>(n); }
  static double elements(const Shape& s) { return static_cast<double>(s.elements()); }
  double result() const { return elements(node_.type.shape); }
  const Shape& shape(std::size_t i) const { return graph_.node(node_.inputs[i]).type.shape; }

  const Graph& graph_;
  const Node& node_;
};

}  // namespace

double flops(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return std::visit(Flops(graph, node), node.op);
}

double flops(const Graph& graph) {
  double sum = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    sum += flops(graph, static_cast<NodeId>(i));
  }
  return sum;
}

std::size_t weight_bytes(const ParamDecl& param, const spmd::Mesh& mesh) {
  return static_cast<std::size_t>(local_shape(param, mesh).elements()) * dtype_bytes(param.dtype);
}

std::size_t weight_bytes(const Graph& graph) {
  std::size_t sum = 0;
  for (const ParamDecl& param : graph.params()) {
    sum += weight_bytes(param, graph.mesh());
  }
  return sum;
}

}  // namespace difflet::graph
