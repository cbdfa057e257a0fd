#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

// Tries to pull one node into the Linear that computes one of its operands.
class LinearFusion {
 public:
  using Result = std::optional<NodeId>;

  // `single_use[i]`: nothing else reads operand i.
  LinearFusion(Graph& to, const Type& type, std::span<const NodeId> inputs,
               const std::vector<bool>& single_use)
      : to_(to), type_(type), in_(inputs), single_use_(single_use) {}

  Result activation(Activation act) {
    const Linear* linear = fusible(0);
    if (linear == nullptr || linear->act != Activation::None || linear->mul) {
      return std::nullopt;
    }
    Linear fused = *linear;
    fused.act = act;
    return replace(0, fused, {});
  }

  Result multiplication(std::size_t i) {
    const Linear* linear = fusible(i);
    if (linear == nullptr || linear->mul) {
      return std::nullopt;
    }
    Linear fused = *linear;
    fused.mul = true;
    return replace(i, fused, {in_[1 - i]});
  }

  // A bias when the other operand is [N] and nothing follows the product yet, else a residual.
  Result addition(std::size_t i) {
    const Linear* linear = fusible(i);
    if (linear == nullptr) {
      return std::nullopt;
    }
    Linear fused = *linear;
    const Shape& other = to_.node(in_[1 - i]).type.shape;
    const bool plain = !linear->bias && linear->act == Activation::None && !linear->mul;
    if (plain && other == Shape{type_.shape.dim(-1)}) {
      fused.bias = true;
    } else if (other == type_.shape) {
      fused.residual = true;
    } else {
      return std::nullopt;
    }
    return replace(i, fused, {in_[1 - i]});
  }

 private:
  // The Linear behind operand i when it may take more work: one reader, no residual yet, and the same
  // result type.
  const Linear* fusible(std::size_t i) const {
    const auto* linear = op_of<Linear>(to_, in_[i]);
    const bool fits =
        linear != nullptr && single_use_[i] && !linear->residual && to_.node(in_[i]).type == type_;
    return fits ? linear : nullptr;
  }

  NodeId replace(std::size_t i, const Linear& fused, std::initializer_list<NodeId> more) {
    std::vector<NodeId> operands = to_.node(in_[i]).inputs;
    operands.insert(operands.end(), more);
    return to_.add(fused, std::move(operands));
  }

  Graph& to_;
  const Type& type_;
  std::span<const NodeId> in_;
  const std::vector<bool>& single_use_;
};

std::optional<NodeId> fuse(LinearFusion& fusion, const Op& op) {
  if (const auto* activate = std::get_if<Activate>(&op)) {
    return fusion.activation(activate->act);
  }
  if (const auto* binary = std::get_if<Binary>(&op)) {
    // The second operand first: in residual + f(x) the product comes last.
    for (const std::size_t i : {1U, 0U}) {
      std::optional<NodeId> fused;
      if (binary->kind == BinaryKind::Mul) {
        fused = fusion.multiplication(i);
      } else if (binary->kind == BinaryKind::Add) {
        fused = fusion.addition(i);
      }
      if (fused) {
        return fused;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Graph fuse_linear(const Graph& graph) {
  const std::vector<std::uint32_t> uses = use_counts(graph);
  const Graph fused = rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    const Node& node = graph.node(id);
    std::vector<bool> single_use;
    single_use.reserve(node.inputs.size());
    for (const NodeId input : node.inputs) {
      single_use.push_back(uses[input] == 1);
    }
    LinearFusion fusion(to, node.type, inputs, single_use);
    const auto found = fuse(fusion, node.op);
    return found ? *found : copy_node(to, graph, id, inputs);
  });
  return eliminate_dead(fused);
}

}  // namespace difflet::graph::passes
