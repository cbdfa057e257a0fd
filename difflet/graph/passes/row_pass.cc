#include "difflet/graph/passes/row_pass.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "difflet/base/error.h"
#include "difflet/graph/cost.h"
#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/naming.h"

namespace difflet::graph::passes {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

RowPass::RowPass(const RowBands& bands, const PassTarget& target, HeldValues held)
    : bands_(&bands),
      graph_(&bands.graph()),
      target_(target),
      held_(std::move(held)),
      roles_(graph_->nodes().size(), Role::Unused) {
  require(bands.rows(target.node).has(), "a band of a value without rows");
  for (const NodeId id : graph_->inputs()) {
    require(bands.rows(id).has(), "an input without rows");
  }
  assign_roles();
}

void RowPass::assign_roles() {
  std::vector<bool> needed(roles_.size(), false);
  needed[target_.node] = true;
  for (NodeId id = target_.node + 1; id-- > 0;) {
    if (!needed[id]) {
      continue;
    }
    const Node& node = graph_->node(id);
    const bool computed = id == target_.node && target_.groups == 0;
    if (is_leaf(node.op)) {
      roles_[id] = Role::Leaf;
    } else if (bands_->is_held(id, held_) && !computed) {
      roles_[id] = Role::Held;
    } else {
      const bool cheap = is_made_again(node.op) || std::holds_alternative<Activate>(node.op) ||
                         held_.statistics.contains(id);
      const bool again = cheap && id != target_.node;
      roles_[id] = !bands_->rows(id).has() ? Role::Whole : again ? Role::Again : Role::Made;
      for (const NodeId operand : node.inputs) {
        needed[operand] = true;
      }
    }
  }
}

// Counted without the picture's borders first, so that every value advances by as many rows a band.
RowPass::Ends RowPass::ends(std::int64_t target_rows) const {
  Ends ends(roles_.size(), std::numeric_limits<std::int64_t>::min());
  ends[target_.node] = target_rows;
  for (NodeId id = target_.node + 1; id-- > 0;) {
    const bool computed = roles_[id] == Role::Made || roles_[id] == Role::Again;
    if (!computed || ends[id] == std::numeric_limits<std::int64_t>::min()) {
      continue;
    }
    if (roles_[id] == Role::Made) {
      // At an even row: kernels that compute two rows at once (Winograd) then pair them as they would in the
      // whole picture, and a sum ends where the convolution does that it can be fused into.
      ends[id] += ends[id] & 1;
    }
    const auto& inputs = graph_->node(id).inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (bands_->rows(inputs[k]).has()) {
        const RowRange read = bands_->reads(id, k, {ends[id] - 1, ends[id]});
        ends[inputs[k]] = std::max(ends[inputs[k]], read.last);
      }
    }
  }
  for (NodeId id = 0; id < ends.size(); ++id) {
    ends[id] = std::clamp<std::int64_t>(ends[id], 0, bands_->rows(id).count);
  }
  return ends;
}

RowPass::Ends RowPass::all() const {
  Ends ends(roles_.size(), 0);
  for (NodeId id = 0; id < ends.size(); ++id) {
    ends[id] = bands_->rows(id).count;
  }
  return ends;
}

bool RowPass::any_made(const Ends& ends) const {
  for (NodeId id = 0; id < ends.size(); ++id) {
    if ((roles_[id] == Role::Made || id == target_.node) && ends[id] > 0) {
      return true;
    }
  }
  return false;
}

std::vector<RowPass::Ends> RowPass::schedule(std::int64_t rows) const {
  const std::int64_t count = bands_->rows(target_.node).count;
  require(rows > 0, "bands of no rows");
  std::vector<Ends> all_ends{Ends(roles_.size(), 0)};
  if (rows < count) {
    std::int64_t first = rows;
    while (any_made(ends(first - rows))) {
      first -= rows;
    }
    for (; first < count; first += rows) {
      all_ends.push_back(ends(first));
    }
  }
  all_ends.push_back(all());
  return all_ends;
}

RowPass::Ends RowPass::first_reads(const Ends& ends) const {
  Ends first(roles_.size(), kNever);
  if (target_.groups > 0) {
    first[target_.node] = ends[target_.node];
  }
  for (NodeId id = target_.node + 1; id-- > 0;) {
    const bool made = roles_[id] == Role::Made;
    const std::int64_t start = made ? ends[id] : first[id];
    const bool over = start >= bands_->rows(id).count;
    if ((!made && roles_[id] != Role::Again) || over) {
      continue;
    }
    const auto& inputs = graph_->node(id).inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (bands_->rows(inputs[k]).has()) {
        const RowRange read = bands_->clipped(inputs[k], bands_->reads(id, k, {start, start + 1}));
        first[inputs[k]] = std::min(first[inputs[k]], read.first);
      }
    }
  }
  return first;
}

std::int64_t RowPass::first_read(NodeId held, std::int64_t rows) const {
  return std::min(first_reads(ends(rows))[held], bands_->rows(held).count);
}

RowRange RowPass::made_rows(NodeId id, const Ends& before, const Ends& after,
                            const Needs& needs) const {
  return roles_[id] == Role::Made ? RowRange{before[id], after[id]} : needs.rows[id];
}

bool RowPass::runs(NodeId id, const Ends& before, const Ends& after, const Needs& needs) const {
  const Role role = roles_[id];
  return role == Role::Whole ? needs.used[id]
                             : (role == Role::Made || role == Role::Again) &&
                                   made_rows(id, before, after, needs).any();
}

RowPass::Needs RowPass::needs(const Ends& before, const Ends& after) const {
  Needs needs{.rows = std::vector<RowRange>(roles_.size()),
              .reads = std::vector<std::vector<RowRange>>(roles_.size()),
              .used = std::vector<bool>(roles_.size(), false)};
  needs.rows[target_.node] = {before[target_.node], after[target_.node]};
  for (NodeId id = target_.node + 1; id-- > 0;) {
    if (!runs(id, before, after, needs)) {
      continue;
    }
    const RowRange made = made_rows(id, before, after, needs);
    const auto& inputs = graph_->node(id).inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const NodeId operand = inputs[k];
      needs.used[operand] = true;
      if (bands_->rows(operand).has()) {
        const RowRange read = bands_->clipped(operand, bands_->reads(id, k, made));
        needs.rows[operand] = joined(needs.rows[operand], read);
        needs.reads[operand].push_back(read);
      }
    }
  }
  return needs;
}

double RowPass::flops() const {
  double sum = 0;
  for (NodeId id = 0; id < roles_.size(); ++id) {
    const Role role = roles_[id];
    const bool computed = role == Role::Made || role == Role::Again || role == Role::Whole;
    sum += computed ? graph::flops(*graph_, id) : 0;
  }
  return sum;
}

std::size_t RowPass::row_bytes(NodeId id) const {
  const Type& type = graph_->node(id).type;
  const auto bytes = static_cast<std::size_t>(type.shape.elements()) * dtype_bytes(type.dtype);
  return bytes / static_cast<std::size_t>(std::max<std::int64_t>(1, bands_->rows(id).count));
}

std::size_t RowPass::band_bytes(const Ends& before, const Ends& after) const {
  const Needs need = needs(before, after);
  const Ends carried = first_reads(before);
  const Ends kept = first_reads(after);
  const auto nodes = graph_->nodes();
  const auto rows = [](std::int64_t first, std::int64_t last) {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, last - first));
  };
  // Views are their operand; activations work in the memory of a norm, sums in that of a convolution.
  std::vector<NodeId> root(nodes.size(), 0);
  std::vector<NodeId> last(nodes.size(), 0);
  for (NodeId id = 0; id <= target_.node; ++id) {
    if (roles_[id] == Role::Unused) {
      continue;
    }
    const bool over = std::holds_alternative<Activate>(nodes[id].op) &&
                      op_of<GroupNorm>(*graph_, nodes[id].inputs[0]) != nullptr;
    const bool view = std::holds_alternative<Reshape>(nodes[id].op) ||
                      std::holds_alternative<Transpose>(nodes[id].op);
    root[id] = over || view ? root[nodes[id].inputs[0]] : id;
    for (const NodeId operand : nodes[id].inputs) {
      const bool sum = std::holds_alternative<Binary>(nodes[id].op);
      root[id] = sum && op_of<Conv2d>(*graph_, operand) != nullptr ? operand : root[id];
    }
    for (const NodeId operand : nodes[id].inputs) {
      last[root[operand]] = id;
    }
  }
  last[root[target_.node]] = target_.node;
  // The target's rows are written where they go.
  const NodeId placed = target_.groups > 0 ? static_cast<NodeId>(nodes.size()) : root[target_.node];
  std::size_t fixed = rows(before[target_.node], after[target_.node]) *
                      (target_.groups > 0 ? 0 : row_bytes(target_.node));
  std::vector<std::size_t> bytes(nodes.size(), 0);
  std::size_t live = 0;
  std::size_t most = 0;
  for (NodeId id = 0; id <= target_.node; ++id) {
    const Role role = roles_[id];
    if (role == Role::Unused) {
      continue;
    }
    if (role == Role::Made) {
      const std::size_t in = rows(carried[id], before[id]);
      fixed += (in + rows(kept[id], after[id])) * row_bytes(id);
      const bool own = (root[id] == id && id != placed) || in > 0;
      bytes[id] = own ? (rows(before[id], after[id]) + in) * row_bytes(id) : 0;
    } else if (role == Role::Again && root[id] == id && need.rows[id].any()) {
      bytes[id] = rows(need.rows[id].first, need.rows[id].last) * row_bytes(id);
    }
    live += bytes[id];
    most = std::max(most, live);
    for (const NodeId operand : nodes[id].inputs) {
      if (last[root[operand]] <= id) {
        live -= std::exchange(bytes[operand], 0) + std::exchange(bytes[root[operand]], 0);
      }
    }
  }
  return fixed + most;
}

std::size_t RowPass::bytes(std::int64_t rows) const {
  const std::int64_t count = bands_->rows(target_.node).count;
  if (rows >= count) {
    return band_bytes(Ends(roles_.size(), 0), all());
  }
  // Bands of few rows differ among each other: a doubling advances in every second one.
  constexpr std::int64_t kPeriod = 16;
  const std::int64_t samples = std::clamp<std::int64_t>(kPeriod / rows, 1, count / rows);
  const std::int64_t start = (count / rows - samples) / 2 * rows;
  std::size_t most = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    most = std::max(most, band_bytes(ends(start + i * rows), ends(start + (i + 1) * rows)));
  }
  return most;
}

std::vector<std::int64_t> RowPass::held_reads(const Ends& before, const Ends& after) const {
  const Needs need = needs(before, after);
  std::vector<std::int64_t> first;
  for (NodeId id = 0; id <= target_.node; ++id) {
    if (roles_[id] == Role::Held && need.rows[id].any()) {
      first.push_back(need.rows[id].first);
    }
  }
  return first;
}

// Everything that cut() decides by: rows of each node relative to those of its operands.
std::string RowPass::signature(const Ends& before, const Ends& after) const {
  const Needs need = needs(before, after);
  const Ends carried = first_reads(before);
  const Ends kept = first_reads(after);
  const auto base = [&](NodeId id) {
    return roles_[id] == Role::Made ? before[id] : need.rows[id].first;
  };
  std::string text;
  for (NodeId id = 0; id <= target_.node; ++id) {
    if (roles_[id] == Role::Made) {
      const std::int64_t in = std::min(carried[id], before[id]) - before[id];
      const std::int64_t out = std::min(kept[id], after[id]) - before[id];
      text += fmt::format("{} {} ", in, out);
    }
    const RowRange made = made_rows(id, before, after, need);
    text += fmt::format("{} {};", made.first - base(id), made.size());
    const Node& node = graph_->node(id);
    for (std::size_t k = 0; runs(id, before, after, need) && k < node.inputs.size(); ++k) {
      const NodeId operand = node.inputs[k];
      if (bands_->rows(operand).has()) {
        const RowRange read = bands_->reads(id, k, made);
        const RowRange there = bands_->clipped(operand, read);
        text += fmt::format("{} {} {} {},", there.first - base(operand), there.size(),
                            there.first - read.first, read.last - there.last);
      }
    }
    if (const auto* upsample = std::get_if<Upsample>(&node.op)) {
      text += fmt::format("{}", made.first % upsample->factor);
    }
  }
  return text;
}

}  // namespace difflet::graph::passes
