#include "difflet/backends/bands/band_plan.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "difflet/graph/passes/naming.h"

namespace difflet::bands {
namespace {

using graph::NodeId;
using graph::passes::HeldValues;
using graph::passes::PassTarget;
using graph::passes::RowBands;
using graph::passes::RowPass;

// Values after which nothing before them is read, and which took work: the places to keep one whole.
std::vector<NodeId> find_cuts(const RowBands& bands) {
  const graph::Graph& graph = bands.graph();
  const NodeId output = graph.outputs()[0].node;
  std::vector<NodeId> last(graph.nodes().size(), 0);  // reader
  for (NodeId id = 0; id < last.size(); ++id) {
    for (const NodeId operand : graph.node(id).inputs) {
      last[operand] = id;
    }
  }
  std::vector<NodeId> cuts{graph.inputs()[0]};
  NodeId reach = 0;  // the last reader of anything before
  for (NodeId id = 0; id < output; ++id) {
    const graph::Op& op = graph.node(id).op;
    if (graph::passes::is_leaf(op)) {
      continue;
    }
    const bool works =
        std::holds_alternative<graph::Conv2d>(op) || std::holds_alternative<graph::Binary>(op);
    if (works && reach <= id && bands.rows(id).has()) {
      cuts.push_back(id);
    }
    reach = std::max(reach, last[id]);
  }
  cuts.push_back(output);
  return cuts;
}

// 2^k and 3 * 2^(k - 1) below `rows`, in descending order; 0 after 1.
std::int64_t next_lower(std::int64_t rows) {
  std::int64_t power = 1;
  while (power * 2 < rows) {
    power *= 2;
  }
  const std::int64_t between = power / 2 * 3;
  return rows <= 1 ? 0 : between < rows && between > power ? between : power;
}

}  // namespace

PassTarget target_of(const graph::Graph& graph, const PlannedPass& pass) {
  if (!pass.statistics) {
    return {pass.node, 0};
  }
  const graph::Node& norm = graph.node(pass.node);
  return {norm.inputs[0], std::get<graph::GroupNorm>(norm.op).groups};
}

bool BandPlanner::can_plan(const RowBands& bands) {
  const graph::Graph& graph = bands.graph();
  return graph.mesh().ranks() == 1 && graph.inputs().size() == 1 && graph.outputs().size() == 1 &&
         graph.outputs()[0].node != graph.inputs()[0] && bands.rows(graph.inputs()[0]).has() &&
         bands.rows(graph.outputs()[0].node).has();
}

BandPlanner::BandPlanner(const RowBands& bands) : bands_(&bands), cuts_(find_cuts(bands)) {}

std::size_t BandPlanner::value_bytes(NodeId id) const {
  const graph::Type& type = bands_->graph().node(id).type;
  return static_cast<std::size_t>(type.shape.elements()) * dtype_bytes(type.dtype);
}

// The input; the output too, but its memory is there from the first of its rows on.
bool BandPlanner::belongs_to_caller(NodeId id) const { return id == cuts_.front(); }

// For both values, with `from` so far behind `to` that no band overwrites what later ones read.
std::size_t BandPlanner::place_bytes(const RowPass& pass, NodeId from, NodeId to,
                                     std::int64_t rows) const {
  const std::size_t from_bytes = belongs_to_caller(from) ? 0 : value_bytes(from);
  const std::size_t to_bytes = value_bytes(to);
  const bool whole_rows =
      bands_->graph().node(from).type.shape[0] == 1 && bands_->rows(from).axis == 1;
  if (belongs_to_caller(from) || to == cuts_.back() || !whole_rows) {
    return from_bytes + to_bytes;
  }
  constexpr std::int64_t kSamples = 16;
  const std::int64_t count = bands_->rows(to).count;
  const auto to_row = static_cast<std::int64_t>(to_bytes) / count;
  const auto from_row = static_cast<std::int64_t>(from_bytes) / bands_->rows(from).count;
  std::int64_t offset = 0;
  for (std::int64_t i = 1; i <= kSamples; ++i) {
    const std::int64_t there = std::min(count, std::max(rows, count * i / kSamples));
    offset = std::max(offset, there * to_row - pass.first_read(from, there) * from_row);
  }
  return std::max(static_cast<std::size_t>(offset) + from_bytes, to_bytes);
}

// Adds the pass with the tallest bands that fit; false when none does. `kept`: what the leg holds besides.
bool BandPlanner::add_pass(BandPlan& plan, PlannedPass planned, const HeldValues& held,
                           std::size_t kept, std::size_t bytes) {
  PlannedLeg& leg = plan.legs[0];
  const bool makes_to = !planned.statistics && planned.node == leg.to;
  const std::size_t from = belongs_to_caller(leg.from) ? 0 : value_bytes(leg.from);
  const PassTarget target = target_of(bands_->graph(), planned);
  const RowPass pass(*bands_, target, held);
  for (std::int64_t rows = bytes == 0 ? 1 : bands_->rows(target.node).count; rows > 0;
       rows = next_lower(rows)) {
    std::size_t place = from;
    if (makes_to) {
      place = place_bytes(pass, leg.from, leg.to, rows);
    } else if (!planned.statistics) {
      place += value_bytes(planned.node);
    }
    const std::size_t needed = kept + place + band_bytes(pass, planned, held, rows);
    if (bytes == 0 || needed <= bytes) {
      planned.rows = rows;
      leg.passes.push_back(planned);
      plan.bytes = std::max(plan.bytes, needed);
      plan.flops += pass.flops();
      return true;
    }
  }
  return false;
}

std::size_t BandPlanner::band_bytes(const RowPass& pass, const PlannedPass& planned,
                                    const HeldValues& held, std::int64_t rows) {
  const auto [found, fresh] = counted_.try_emplace(
      {planned.node, planned.statistics, held.values, held.statistics, rows}, 0);
  if (fresh) {
    found->second = pass.bytes(rows);
  }
  return found->second;
}

BandPlan BandPlanner::leg(NodeId from, NodeId to, std::size_t bytes) {
  BandPlan plan{.legs = {{.from = from, .to = to, .passes = {}}}};
  HeldValues held{.values = {from}, .statistics = {}};
  // All rows at once need no statistics before.
  const RowPass once(*bands_, {to, 0}, held);
  const std::int64_t count = bands_->rows(to).count;
  const std::size_t at_once = (belongs_to_caller(from) ? 0 : value_bytes(from)) + value_bytes(to) +
                              band_bytes(once, {to, false, count}, held, count);
  if (bytes > 0 && at_once <= bytes) {
    plan.legs[0].passes.push_back({to, false, count});
    plan.flops = once.flops();
    plan.bytes = at_once;
    return plan;
  }
  std::size_t kept = 0;
  for (const auto& need : bands_->needs_whole(to, held)) {
    if (!add_pass(plan, {need.node, need.statistics, 0}, held, kept, bytes)) {
      return {};
    }
    if (need.statistics) {
      held.statistics.insert(need.node);
    } else {
      held.values.insert(need.node);
      kept += value_bytes(need.node);
    }
  }
  if (!add_pass(plan, {to, false, 0}, held, kept, bytes)) {
    return {};
  }
  return plan;
}

namespace {

BandPlan joined(const BandPlan& a, const BandPlan& b) {
  BandPlan both = a;
  both.legs.insert(both.legs.end(), b.legs.begin(), b.legs.end());
  both.flops += b.flops;
  both.bytes = std::max(a.bytes, b.bytes);
  return both;
}

template <typename Leg, typename Better>
BandPlan best_chain(const std::vector<NodeId>& cuts, const Leg& leg, const Better& better) {
  std::vector<std::optional<BandPlan>> best(cuts.size());
  best[0] = BandPlan{};
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    for (std::size_t j = i + 1; best[i] && j < cuts.size(); ++j) {
      const BandPlan step = leg(cuts[i], cuts[j]);
      if (step.legs.empty()) {
        continue;
      }
      const BandPlan both = joined(*best[i], step);
      if (!best[j] || better(both, *best[j])) {
        best[j] = both;
      }
    }
  }
  return best.back().value_or(BandPlan{});
}

}  // namespace

BandPlan BandPlanner::cheapest(std::size_t bytes) {
  return best_chain(
      cuts_, [&](NodeId from, NodeId to) { return leg(from, to, std::max<std::size_t>(bytes, 1)); },
      [](const BandPlan& a, const BandPlan& b) { return a.flops < b.flops; });
}

std::size_t BandPlanner::smallest() {
  const BandPlan plan = best_chain(
      cuts_, [&](NodeId from, NodeId to) { return leg(from, to, 0); },
      [](const BandPlan& a, const BandPlan& b) { return a.bytes < b.bytes; });
  return plan.bytes;
}

}  // namespace difflet::bands
