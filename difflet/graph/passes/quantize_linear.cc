#include "difflet/graph/passes/quantize_linear.h"

#include <algorithm>
#include <optional>
#include <set>

#include "difflet/base/error.h"
#include "difflet/graph/builder.h"
#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

const ParamDecl* param_of(const Graph& graph, NodeId id) {
  const auto* param = op_of<Param>(graph, id);
  return param == nullptr ? nullptr : &graph.params()[static_cast<std::size_t>(param->index)];
}

// The declaration that a plain Linear has as its weight, else null.
const ParamDecl* weight_of(const Graph& graph, NodeId id) {
  const auto* linear = op_of<Linear>(graph, id);
  const bool plain = linear != nullptr && linear->quant == WeightQuant::None;
  return plain ? param_of(graph, graph.node(id).inputs[1]) : nullptr;
}

template <typename Names>
void check_weights(const Graph& graph, const Names& names) {
  const std::vector<std::string> weights = linear_weights(graph);
  const std::set<std::string, std::less<>> known(weights.begin(), weights.end());
  for (const auto& name : names) {
    check(known.contains(name), ErrorCode::InvalidArgument,
          "'{}' is not the weight of a linear layer", name);
  }
}

std::vector<std::string> names_of(const LinearQuantPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.size());
  for (const auto& [name, quant] : plan) {
    names.push_back(name);
  }
  return names;
}

// The vector [extent of axis `dim` of the weight] that belongs to it, cut over the ranks alike.
ParamDecl vector_of(const ParamDecl& weight, std::string (*name)(std::string_view),
                    std::int64_t dim) {
  ParamDecl decl{.name = name(weight.name),
                 .aliases = {},
                 .dtype = DType::F32,
                 .shape = Shape{weight.shape[static_cast<std::size_t>(dim)]},
                 .placement = {}};
  for (const std::string& alias : weight.aliases) {
    decl.aliases.push_back(name(alias));
  }
  if (weight.placement.split && weight.placement.dim == dim) {
    decl.placement = weight.placement;
    decl.placement.dim = 0;
  }
  return decl;
}

ParamDecl int8_of(const ParamDecl& weight) {
  ParamDecl decl = weight;
  decl.name = int8_name(weight.name);
  decl.dtype = DType::I8;
  for (std::string& alias : decl.aliases) {
    alias = int8_name(alias);
  }
  return decl;
}

// The quantised form of Linear `id` of `from`, whose operands in `to` are `inputs`.
NodeId quantised(Graph& to, const Graph& from, NodeId id, std::span<const NodeId> inputs,
                 const ParamDecl& weight, const LinearQuant& quant) {
  Linear op = std::get<Linear>(from.node(id).op);
  op.quant = quant.mode;
  op.smooth = quant.smooth;
  std::vector<NodeId> operands{inputs[0], to.add_param(int8_of(weight)),
                               to.add_param(vector_of(weight, scale_name, 0))};
  if (quant.smooth) {
    operands.push_back(to.add_param(vector_of(weight, smooth_name, 1)));
  }
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return to.add(op, std::move(operands));
}

// [columns of x]: the largest magnitude in each.
NodeId largest_columns(Graph& to, NodeId x) {
  Builder b(to);
  NodeId v = b.unary(UnaryKind::Abs, b.convert(x, DType::F32));
  const auto last = static_cast<std::int64_t>(b.shape(v).rank()) - 1;
  const std::int64_t columns = b.shape(v)[static_cast<std::size_t>(last)];
  Dims rows;
  for (std::int64_t axis = 0; axis < last; ++axis) {
    rows.push_back(axis);
  }
  if (!rows.empty()) {
    v = b.reduce(ReduceKind::Max, v, rows);
  }
  return b.reshape(v, Shape{columns});
}

// [1]: the sum of squares of all elements.
NodeId sum_of_squares(Builder& b, NodeId x) {
  Dims axes;
  for (std::size_t axis = 0; axis < b.shape(x).rank(); ++axis) {
    axes.push_back(static_cast<std::int64_t>(axis));
  }
  return b.reshape(b.reduce(ReduceKind::Sum, b.mul(x, x), axes), Shape{1});
}

// The graph with one more output for each weight that measure() gave values for: these, joined by `kind`.
using Measure = std::function<std::optional<NodeId>(Graph& to, NodeId id, std::span<const NodeId>,
                                                    NodeId result)>;
Graph with_measurements(const Graph& graph, BinaryKind kind, const Measure& measure) {
  std::map<std::string, NodeId, std::less<>> found;
  Graph measured = rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    const NodeId result = copy_node(to, graph, id, inputs);
    if (const ParamDecl* weight = weight_of(graph, id)) {
      if (const auto value = measure(to, id, inputs, result)) {
        const auto [place, fresh] = found.try_emplace(weight->name, *value);
        if (!fresh) {
          place->second = Builder(to).binary(kind, place->second, *value);
        }
      }
    }
    return result;
  });
  for (const auto& [name, node] : found) {
    measured.add_output(name, node);
  }
  return measured;
}

}  // namespace

std::string int8_name(std::string_view weight) { return std::string(weight) + "_int8"; }
std::string scale_name(std::string_view weight) { return std::string(weight) + "_scale"; }
std::string smooth_name(std::string_view weight) { return std::string(weight) + "_smooth"; }

std::vector<std::string> linear_weights(const Graph& graph) {
  std::vector<bool> read_as_weight(graph.params().size(), false);
  std::vector<bool> read_otherwise(graph.params().size(), false);
  const auto index_of = [&](NodeId id) {
    const auto* param = op_of<Param>(graph, id);
    return param == nullptr ? std::optional<std::size_t>()
                            : std::optional(static_cast<std::size_t>(param->index));
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const bool is_linear = weight_of(graph, static_cast<NodeId>(i)) != nullptr;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (const auto param = index_of(node.inputs[k])) {
        (is_linear && k == 1 ? read_as_weight : read_otherwise)[*param] = true;
      }
    }
  }
  for (const Output& output : graph.outputs()) {
    if (const auto param = index_of(output.node)) {
      read_otherwise[*param] = true;
    }
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.params().size(); ++i) {
    if (read_as_weight[i] && !read_otherwise[i]) {
      names.push_back(graph.params()[i].name);
    }
  }
  return names;
}

Graph quantize_linear(const Graph& graph, const LinearQuantPlan& plan) {
  check_weights(graph, names_of(plan));
  return eliminate_dead(rewrite(graph, [&](Graph& to, NodeId id, std::span<const NodeId> inputs) {
    if (const ParamDecl* weight = weight_of(graph, id)) {
      if (const auto planned = plan.find(weight->name); planned != plan.end()) {
        return quantised(to, graph, id, inputs, *weight, planned->second);
      }
    }
    return copy_node(to, graph, id, inputs);
  }));
}

Graph observe_linear(const Graph& graph, std::span<const std::string> weights) {
  check_weights(graph, weights);
  const std::set<std::string, std::less<>> wanted(weights.begin(), weights.end());
  return with_measurements(graph, BinaryKind::Max,
                           [&](Graph& to, NodeId id, std::span<const NodeId> inputs,
                               NodeId /*result*/) -> std::optional<NodeId> {
                             if (!wanted.contains(weight_of(graph, id)->name)) {
                               return std::nullopt;
                             }
                             return largest_columns(to, inputs[0]);
                           });
}

Graph compare_linear(const Graph& graph, const LinearQuantPlan& plan) {
  check_weights(graph, names_of(plan));
  return with_measurements(
      graph, BinaryKind::Add,
      [&](Graph& to, NodeId id, std::span<const NodeId> inputs,
          NodeId result) -> std::optional<NodeId> {
        const ParamDecl* weight = weight_of(graph, id);
        const auto planned = plan.find(weight->name);
        if (planned == plan.end()) {
          return std::nullopt;
        }
        const NodeId other = quantised(to, graph, id, inputs, *weight, planned->second);
        Builder b(to);
        const NodeId exact = b.convert(result, DType::F32);
        const NodeId error = b.sub(b.convert(other, DType::F32), exact);
        return b.concat({sum_of_squares(b, error), sum_of_squares(b, exact)}, 0);
      });
}

}  // namespace difflet::graph::passes
