// The graph of one band of a pass.
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "difflet/base/error.h"
#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/row_pass.h"

namespace difflet::graph::passes {
namespace {

// A convolution that leaves the picture's height as it is, of a doubled picture: a backend may fold the
// doubling into it, which needs whole pairs of rows and the padding as it was traced.
bool takes_doubled(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<Conv2d>(&node.op);
  if (conv == nullptr || op_of<Upsample>(graph, node.inputs[0]) == nullptr) {
    return false;
  }
  const std::int64_t kernel = graph.node(node.inputs[1]).type.shape[2];
  return conv->stride == 1 && conv->pad_top == conv->pad_bottom && 2 * conv->pad_top == kernel - 1;
}

}  // namespace

// Builds the graph of one band.
class RowPass::Cutter {
 public:
  Cutter(const RowPass& pass, const Ends& before, const Ends& after)
      : pass_(pass),
        from_(*pass.graph_),
        before_(before),
        after_(after),
        need_(pass.needs(before, after)),
        carried_(pass.first_reads(before)),
        kept_(pass.first_reads(after)),
        parts_(pass.roles_.size()),
        map_(pass.roles_.size(), 0) {
    band_.graph = Graph(from_.name() + "/band", from_.mesh());
  }

  Band cut() {
    const NodeId target = pass_.target_.node;
    for (NodeId id = 0; id <= target; ++id) {
      to().set_scope(from_.scope_name(from_.node(id).scope));
      add(id);
    }
    to().restore_scope(0);
    band_.rows = {before_[target], after_[target]};
    if (band_.rows.any()) {
      NodeId result = part(target, band_.rows);
      if (pass_.target_.groups > 0) {
        result = to().add(GroupStatistics{pass_.target_.groups}, {result});
      }
      to().add_output("band", result);
    }
    return std::move(band_);
  }

 private:
  // Rows of a node in a node of the band's graph.
  struct Part {
    NodeId node = 0;
    RowRange rows;
  };

  Graph& to() { return band_.graph; }
  const PictureRows& rows(NodeId id) const { return pass_.bands_->rows(id); }

  NodeId input(NodeId id, std::string_view kind, RowRange range) {
    Type type = from_.node(id).type;
    if (rows(id).has()) {
      type.shape = type.shape.with(rows(id).axis, range.size() * rows(id).unit);
    }
    return to().add(Input{fmt::format("{}.{}", kind, id), type.dtype, type.shape, Binding::Request},
                    {});
  }

  void add(NodeId id) {
    const RowRange made{before_[id], after_[id]};
    switch (pass_.roles_[id]) {
      case Role::Unused:
        return;
      case Role::Leaf:
        if (need_.used[id]) {
          map_[id] = copy_node(to(), from_, id, {});
        }
        return;
      case Role::Whole:
        if (need_.used[id]) {
          map_[id] = to().add(from_.node(id).op, operands(id, {}));
        }
        return;
      case Role::Held:
        if (need_.rows[id].any()) {
          map_[id] = input(id, "value", need_.rows[id]);
          parts_[id] = {{map_[id], need_.rows[id]}};
          slice_for_readers(id);
        }
        return;
      case Role::Again:
        if (need_.rows[id].any()) {
          make(id, need_.rows[id]);
          slice_for_readers(id);
        }
        return;
      case Role::Made:
        if (carried_[id] < before_[id]) {
          const RowRange range{carried_[id], before_[id]};
          parts_[id].push_back({input(id, "carry", range), range});
        }
        if (made.any()) {
          make(id, made);
        }
        slice_for_readers(id);
        if (kept_[id] < after_[id]) {
          to().add_output(fmt::format("carry.{}", id), part(id, {kept_[id], after_[id]}));
        }
        return;
    }
  }

  // Adds the node's op for these rows, or for some around them.
  void make(NodeId id, RowRange range) {
    const Node& node = from_.node(id);
    Op op = node.op;
    RowRange result = range;
    if (const auto* upsample = std::get_if<Upsample>(&op)) {
      const RowRange read =
          pass_.bands_->clipped(node.inputs[0], pass_.bands_->reads(id, 0, range));
      result = {read.first * upsample->factor, read.last * upsample->factor};
    } else if (takes_doubled(from_, node)) {
      // All rows that the doubled operand has; those next to a border that is none are wrong, and cut off.
      result = parts_[node.inputs[0]].front().rows;
    } else if (auto* conv = std::get_if<Conv2d>(&op)) {
      const RowRange read = pass_.bands_->reads(id, 0, range);
      const RowRange there = pass_.bands_->clipped(node.inputs[0], read);
      conv->pad_top = there.first - read.first;
      conv->pad_bottom = read.last - there.last;
    } else if (auto* reshape = std::get_if<Reshape>(&op)) {
      reshape->shape = reshape->shape.with(rows(id).axis, range.size() * rows(id).unit);
    }
    std::vector<NodeId> inputs = operands(id, result);
    if (auto* norm = std::get_if<GroupNorm>(&op);
        norm != nullptr && pass_.held_.statistics.contains(id)) {
      norm->statistics = true;
      inputs.push_back(to().add(Input{fmt::format("statistics.{}", id), DType::F32,
                                      Shape{node.type.shape[0], norm->groups, 4}, Binding::Request},
                                {}));
    }
    NodeId made = to().add(std::move(op), std::move(inputs));
    if (result != range && pass_.roles_[id] == Role::Made) {
      made = slice(id, made, result, range);
      result = range;
    }
    parts_[id].push_back({made, result});
  }

  std::vector<NodeId> operands(NodeId id, RowRange range) {
    const auto& inputs = from_.node(id).inputs;
    std::vector<NodeId> operands;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const NodeId operand = inputs[k];
      if (!rows(operand).has()) {
        operands.push_back(map_[operand]);
        continue;
      }
      const bool doubled = k == 0 && takes_doubled(from_, from_.node(id));
      const RowRange read = doubled ? range : pass_.bands_->reads(id, k, range);
      operands.push_back(part(operand, pass_.bands_->clipped(operand, read)));
    }
    return operands;
  }

  // Slices come before what reads other values too: a convolution adds what is there before it.
  void slice_for_readers(NodeId id) {
    for (const RowRange& range : need_.reads[id]) {
      part(id, range);
    }
  }

  // These rows of a node that is there.
  NodeId part(NodeId id, RowRange range) {
    std::vector<Part>& parts = parts_[id];
    const auto contains = [&](const Part& p) { return p.rows.contains(range); };
    if (std::ranges::none_of(parts, contains)) {
      require(parts.size() >= 2 && parts[0].rows.last == parts[1].rows.first,
              "rows that a band does not have");
      const NodeId both = to().add(Concat{static_cast<std::int64_t>(rows(id).axis)},
                                   {parts[0].node, parts[1].node});
      parts.push_back({both, {parts[0].rows.first, parts[1].rows.last}});
    }
    // The smallest that contains them: a slice that was made before, if there is one.
    const auto found = std::ranges::min_element(parts, {}, [&](const Part& p) {
      return contains(p) ? p.rows.size() : std::numeric_limits<std::int64_t>::max();
    });
    require(contains(*found), "rows that a band does not have");
    if (found->rows == range) {
      return found->node;
    }
    const NodeId some = slice(id, found->node, found->rows, range);
    parts.push_back({some, range});
    return some;
  }

  // Rows `wanted` of a node that has `there`.
  NodeId slice(NodeId id, NodeId node, RowRange there, RowRange wanted) {
    const std::int64_t unit = rows(id).unit;
    return to().add(
        Slice{static_cast<std::int64_t>(rows(id).axis), (wanted.first - there.first) * unit,
              (wanted.last - there.first) * unit, 1},
        {node});
  }

  const RowPass& pass_;
  const Graph& from_;
  const Ends &before_, &after_;
  Needs need_;
  Ends carried_, kept_;
  std::vector<std::vector<Part>> parts_;  // [node]
  std::vector<NodeId> map_;               // [node], of those without rows
  Band band_;
};

Band RowPass::cut(const Ends& before, const Ends& after) const {
  return Cutter(*this, before, after).cut();
}

}  // namespace difflet::graph::passes
