#include "difflet/graph/passes/row_bands.h"

#include <algorithm>

#include "difflet/graph/passes/naming.h"

namespace difflet::graph::passes {
namespace {

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t i = first; i < last; ++i) {
    n *= shape[i];
  }
  return n;
}

bool is_elementwise(const Op& op) {
  return std::holds_alternative<Unary>(op) || std::holds_alternative<Binary>(op) ||
         std::holds_alternative<Compare>(op) || std::holds_alternative<Select>(op) ||
         std::holds_alternative<Convert>(op) || std::holds_alternative<Activate>(op);
}

// Over the last axis, row by row; operands after the first are weights or broadcast.
bool is_rowwise(const Node& node) {
  if (const auto* linear = std::get_if<Linear>(&node.op)) {
    return !linear->mul && !linear->residual;
  }
  if (const auto* norm = std::get_if<LayerNorm>(&node.op)) {
    return !norm->modulated;
  }
  return std::holds_alternative<RmsNorm>(node.op) || std::holds_alternative<Softmax>(node.op);
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// The axis of a reshaped value that counts the same rows, if there is one.
PictureRows reshaped_rows(const PictureRows& rows, const Shape& from, const Shape& to) {
  const std::int64_t before = product(from, 0, rows.axis);
  const std::int64_t row = rows.unit * product(from, rows.axis + 1, from.rank());
  for (std::size_t axis = 0; axis < to.rank(); ++axis) {
    const std::int64_t inner = product(to, axis + 1, to.rank());
    if (product(to, 0, axis) == before && inner > 0 && row % inner == 0 &&
        to[axis] == rows.count * (row / inner)) {
      return {axis, row / inner, rows.count};
    }
  }
  return {};
}

}  // namespace

RowRange joined(RowRange a, RowRange b) noexcept {
  if (!a.any() || !b.any()) {
    return a.any() ? a : b;
  }
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

bool is_made_again(const Op& op) noexcept {
  return std::holds_alternative<Reshape>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Upsample>(op);
}

RowBands::RowBands(const Graph& graph) : graph_(&graph), seeds_(graph.nodes().size()) {
  seed_inputs();
  rows_.reserve(seeds_.size());
  for (std::size_t i = 0; i < seeds_.size(); ++i) {
    rows_.push_back(infer_rows(static_cast<NodeId>(i)));
  }
}

// From convolutions back to the inputs that they read.
void RowBands::seed_inputs() {
  for (std::size_t i = seeds_.size(); i-- > 0;) {
    const Node& node = graph_->nodes()[i];
    if (node.inputs.empty()) {
      continue;
    }
    PictureRows& first = seeds_[node.inputs[0]];
    const auto* transpose = std::get_if<Transpose>(&node.op);
    if (std::holds_alternative<Conv2d>(node.op)) {
      first = {1, 1, graph_->node(node.inputs[0]).type.shape[1]};
    } else if (transpose != nullptr && seeds_[i].has()) {
      first = seeds_[i];
      first.axis = static_cast<std::size_t>(transpose->permutation[seeds_[i].axis]);
    } else if (seeds_[i].has() && is_elementwise(node.op)) {
      for (const NodeId operand : node.inputs) {
        if (graph_->node(operand).type.shape == node.type.shape) {
          seeds_[operand] = seeds_[i];
        }
      }
    }
  }
}

// An operand's axis counts from the right, as broadcasting does.
PictureRows RowBands::rows_of_elementwise(const Node& node) const {
  const std::size_t rank = node.type.shape.rank();
  PictureRows found;
  for (const NodeId operand : node.inputs) {
    PictureRows rows = rows_[operand];
    if (rows.has()) {
      rows.axis += rank - graph_->node(operand).type.shape.rank();
      if (found.has() && rows != found) {
        return {};
      }
      found = rows;
    }
  }
  for (const NodeId operand : node.inputs) {
    const Shape& shape = graph_->node(operand).type.shape;
    const std::size_t missing = rank - shape.rank();
    if (found.has() && !rows_[operand].has() && found.axis >= missing &&
        shape[found.axis - missing] != 1) {
      return {};
    }
  }
  return found;
}

PictureRows RowBands::infer_rows(NodeId id) const {
  const Node& node = graph_->node(id);
  const Shape& shape = node.type.shape;
  if (std::holds_alternative<Input>(node.op)) {
    return seeds_[id];
  }
  if (node.inputs.empty()) {
    return {};
  }
  if (is_elementwise(node.op)) {
    return rows_of_elementwise(node);
  }
  const PictureRows& x = rows_[node.inputs[0]];
  if (!x.has()) {
    return {};
  }
  if (std::holds_alternative<Conv2d>(node.op) || std::holds_alternative<Upsample>(node.op)) {
    return x.axis == 1 && x.unit == 1 ? PictureRows{1, 1, shape[1]} : PictureRows{};
  }
  if (const auto* transpose = std::get_if<Transpose>(&node.op)) {
    const auto axis = std::ranges::find(transpose->permutation, static_cast<std::int64_t>(x.axis));
    return {static_cast<std::size_t>(axis - transpose->permutation.begin()), x.unit, x.count};
  }
  if (std::holds_alternative<Reshape>(node.op)) {
    return reshaped_rows(x, graph_->node(node.inputs[0]).type.shape, shape);
  }
  if (std::holds_alternative<GroupNorm>(node.op)) {
    return x.axis > 0 && x.axis + 1 < shape.rank() ? x : PictureRows{};
  }
  if (const auto* attention = std::get_if<Attention>(&node.op)) {
    const bool plain = !attention->causal && !attention->bias && !attention->bounds;
    return plain && x.axis == 1 ? x : PictureRows{};
  }
  return is_rowwise(node) && x.axis + 1 < shape.rank() ? x : PictureRows{};
}

bool RowBands::reads_all(NodeId id, std::size_t i) const {
  return !rows_[id].has() || (std::holds_alternative<Attention>(graph_->node(id).op) && i > 0);
}

RowRange RowBands::reads(NodeId id, std::size_t i, RowRange range) const {
  const Node& node = graph_->node(id);
  if (reads_all(id, i)) {
    return {0, rows_[node.inputs[i]].count};
  }
  if (const auto* conv = std::get_if<Conv2d>(&node.op)) {
    const std::int64_t kernel = graph_->node(node.inputs[1]).type.shape[2];
    return {range.first * conv->stride - conv->pad_top,
            (range.last - 1) * conv->stride - conv->pad_top + kernel};
  }
  if (const auto* upsample = std::get_if<Upsample>(&node.op)) {
    return {floor_div(range.first, upsample->factor),
            floor_div(range.last - 1, upsample->factor) + 1};
  }
  return range;
}

RowRange RowBands::clipped(NodeId id, RowRange range) const {
  const std::int64_t count = rows_[id].count;
  return {std::clamp<std::int64_t>(range.first, 0, count),
          std::clamp<std::int64_t>(range.last, 0, count)};
}

bool RowBands::is_held(NodeId id, const HeldValues& held) const {
  return held.values.contains(id) || std::holds_alternative<Input>(graph_->node(id).op);
}

std::vector<RowBands::Whole> RowBands::needs_whole(NodeId target, const HeldValues& held) const {
  const auto nodes = graph_->nodes();
  std::vector<bool> needed(nodes.size(), false);
  needed[target] = true;
  std::set<NodeId> wanted;
  std::vector<Whole> list;
  for (NodeId id = target + 1; id-- > 0;) {
    const Node& node = nodes[id];
    if (!needed[id] || is_leaf(node.op) || (id != target && is_held(id, held))) {
      continue;
    }
    const auto* norm = std::get_if<GroupNorm>(&node.op);
    if (norm != nullptr && !norm->statistics && !held.statistics.contains(id)) {
      list.push_back({id, true});
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      NodeId operand = node.inputs[k];
      needed[operand] = true;
      while (reads_all(id, k) && is_made_again(nodes[operand].op)) {
        operand = nodes[operand].inputs[0];
      }
      if (reads_all(id, k) && rows_[operand].has() && !is_held(operand, held) &&
          wanted.insert(operand).second) {
        list.push_back({operand, false});
      }
    }
  }
  std::ranges::sort(list, {}, &Whole::node);
  return list;
}

}  // namespace difflet::graph::passes
