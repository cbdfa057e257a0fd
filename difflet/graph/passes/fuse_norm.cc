#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

// A fused op over nodes of the graph before the pass.
struct Fused {
  Op op;
  std::vector<NodeId> inputs;
};

class NormFusion {
 public:
  explicit NormFusion(const Graph& graph) : graph_(graph), uses_(use_counts(graph)) {}

  std::optional<Fused> match(NodeId id) const {
    const Node& node = graph_.node(id);
    if (const auto* rope = std::get_if<Rope>(&node.op)) {
      return match_rope(*rope, node);
    }
    if (const auto* activate = std::get_if<Activate>(&node.op)) {
      return match_activate(*activate, node);
    }
    return match_modulation(id);
  }

 private:
  // The op behind `id` when nothing but the pattern reads it.
  template <typename O>
  const O* only(NodeId id) const {
    return uses_[id] == 1 ? op_of<O>(graph_, id) : nullptr;
  }

  std::optional<Fused> match_rope(const Rope& rope, const Node& node) const {
    const auto* norm = only<RmsNorm>(node.inputs[0]);
    if (norm == nullptr || !norm->weight || rope.norm) {
      return std::nullopt;
    }
    const std::vector<NodeId>& in = graph_.node(node.inputs[0]).inputs;
    return Fused{Rope{.pairs = rope.pairs, .norm = true, .eps = norm->eps},
                 {in[0], node.inputs[1], node.inputs[2], in[1]}};
  }

  std::optional<Fused> match_activate(const Activate& activate, const Node& node) const {
    const auto* norm = only<GroupNorm>(node.inputs[0]);
    if (norm == nullptr || norm->act != Activation::None) {
      return std::nullopt;
    }
    GroupNorm fused = *norm;
    fused.act = activate.act;
    return Fused{fused, graph_.node(node.inputs[0]).inputs};
  }

  // scale in 1 + scale, in either order.
  std::optional<NodeId> one_plus(NodeId id) const {
    const auto sum = binary_operands(graph_, id, BinaryKind::Add);
    if (sum && constant_scalar(graph_, sum->first) == 1.0) {
      return sum->second;
    }
    if (sum && constant_scalar(graph_, sum->second) == 1.0) {
      return sum->first;
    }
    return std::nullopt;
  }

  std::optional<Fused> match_modulation(NodeId id) const {
    const auto sum = binary_operands(graph_, id, BinaryKind::Add);
    if (!sum) {
      return std::nullopt;
    }
    auto fused = modulated(id, sum->first, sum->second);
    return fused ? fused : modulated(id, sum->second, sum->first);
  }

  std::optional<Fused> modulated(NodeId id, NodeId product, NodeId shift) const {
    const auto factors = binary_operands(graph_, product, BinaryKind::Mul);
    if (!factors || uses_[product] != 1) {
      return std::nullopt;
    }
    auto fused = modulated(id, factors->first, factors->second, shift);
    return fused ? fused : modulated(id, factors->second, factors->first, shift);
  }

  std::optional<Fused> modulated(NodeId id, NodeId norm_id, NodeId factor, NodeId shift) const {
    const auto* norm = only<LayerNorm>(norm_id);
    const auto scale = one_plus(factor);
    if (norm == nullptr || norm->modulated || !scale ||
        graph_.node(norm_id).type != graph_.node(id).type) {
      return std::nullopt;
    }
    LayerNorm fused = *norm;
    fused.modulated = true;
    std::vector<NodeId> inputs = graph_.node(norm_id).inputs;
    inputs.insert(inputs.end(), {*scale, shift});
    return Fused{fused, std::move(inputs)};
  }

  const Graph& graph_;
  const std::vector<std::uint32_t> uses_;
};

}  // namespace

Graph fuse_norm(const Graph& graph) {
  const NormFusion fusion(graph);
  std::vector<NodeId> now(graph.nodes().size(), 0);  // by node of `graph`
  const Graph fused = rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    if (auto found = fusion.match(id)) {
      for (NodeId& input : found->inputs) {
        input = now[input];
      }
      now[id] = to.add(std::move(found->op), std::move(found->inputs));
    } else {
      now[id] = copy_node(to, graph, id, inputs);
    }
    return now[id];
  });
  return eliminate_dead(fused);
}

}  // namespace difflet::graph::passes
