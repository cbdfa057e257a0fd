// How a picture is computed in bounded memory: which values are kept whole, and in bands of how many rows
// the next one is computed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "difflet/graph/passes/row_bands.h"
#include "difflet/graph/passes/row_pass.h"

namespace difflet::bands {

// One pass over a picture: the rows of a value, or the statistics of a GroupNorm's operand.
struct PlannedPass {
  graph::NodeId node = 0;  // the value; of statistics the GroupNorm
  bool statistics = false;
  std::int64_t rows = 0;  // of a band
};

// From the value kept so far to the next one, which takes its place. The last pass makes `to`; values that
// earlier ones make are dropped after it.
struct PlannedLeg {
  graph::NodeId from = 0, to = 0;
  std::vector<PlannedPass> passes;
};

struct BandPlan {
  std::vector<PlannedLeg> legs;
  double flops = 0;
  std::size_t bytes = 0;  // an estimate: kept values and what a band holds at once, without scratch
};

class BandPlanner {
 public:
  // Whether the graph makes one picture from one input, so that there can be a plan.
  static bool can_plan(const graph::passes::RowBands& bands);
  // `bands` must outlive this.
  explicit BandPlanner(const graph::passes::RowBands& bands);

  // The plan of least work whose estimate stays within `bytes`; no legs when there is none.
  BandPlan cheapest(std::size_t bytes);
  // The least estimate that a plan can have.
  std::size_t smallest();

 private:
  // What going from one value to another takes with the tallest bands that fit into `bytes`; with 0, with
  // the lowest bands.
  BandPlan leg(graph::NodeId from, graph::NodeId to, std::size_t bytes);
  bool add_pass(BandPlan& plan, PlannedPass planned, const graph::passes::HeldValues& held,
                std::size_t kept, std::size_t bytes);
  // RowPass::bytes(rows) of the pass, counted once: plans for many limits ask for the same.
  std::size_t band_bytes(const graph::passes::RowPass& pass, const PlannedPass& planned,
                         const graph::passes::HeldValues& held, std::int64_t rows);
  std::size_t place_bytes(const graph::passes::RowPass& pass, graph::NodeId from, graph::NodeId to,
                          std::int64_t rows) const;
  std::size_t value_bytes(graph::NodeId id) const;
  bool belongs_to_caller(graph::NodeId id) const;

  const graph::passes::RowBands* bands_;
  // By node, statistics, held values, held statistics, rows.
  std::map<std::tuple<graph::NodeId, bool, std::set<graph::NodeId>, std::set<graph::NodeId>,
                      std::int64_t>,
           std::size_t>
      counted_;
  std::vector<graph::NodeId> cuts_;  // input, values that all later ones pass through, output
};

// What a pass makes, of the graph.
graph::passes::PassTarget target_of(const graph::Graph& graph, const PlannedPass& pass);

}  // namespace difflet::bands
