// Where the rows of a picture lie in the values of a graph, and which rows each op reads for its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

// Where the rows of a picture lie in a value: `count` rows of `unit` entries each along `axis`.
struct PictureRows {
  std::size_t axis = 0;
  std::int64_t unit = 0;  // 0: the value has no rows
  std::int64_t count = 0;
  bool has() const noexcept { return unit > 0; }
  bool operator==(const PictureRows&) const noexcept = default;
};

struct RowRange {
  std::int64_t first = 0, last = 0;  // past the end
  std::int64_t size() const noexcept { return last - first; }
  bool any() const noexcept { return last > first; }
  bool contains(RowRange part) const noexcept { return part.first >= first && part.last <= last; }
  bool operator==(const RowRange&) const noexcept = default;
};
// From the first row of either to the last; a range without rows counts for nothing.
RowRange joined(RowRange a, RowRange b) noexcept;

// What is in memory as a whole: values (inputs of the graph always are), and statistics of the operands of
// these GroupNorms.
struct HeldValues {
  std::set<NodeId> values;
  std::set<NodeId> statistics;
};

// Convolutions read the rows around theirs; keys and values of attention, and whatever an op without a
// rule reads, are read as a whole.
class RowBands {
 public:
  // The graph must outlive this.
  explicit RowBands(const Graph& graph);

  const Graph& graph() const noexcept { return *graph_; }
  const PictureRows& rows(NodeId id) const { return rows_.at(id); }
  // Rows of operand `i` that rows `range` of node `id` read, of which some may lie outside of the
  // picture. Both have rows.
  RowRange reads(NodeId id, std::size_t i, RowRange range) const;
  // The part of the range that is in the picture.
  RowRange clipped(NodeId id, RowRange range) const;
  bool is_held(NodeId id, const HeldValues& held) const;

  struct Whole {
    NodeId node = 0;
    bool statistics = false;  // of the operand of this GroupNorm; else the value itself
  };
  // What bands of `target` need besides `held`, in order of computation.
  std::vector<Whole> needs_whole(NodeId target, const HeldValues& held) const;

 private:
  void seed_inputs();
  PictureRows infer_rows(NodeId id) const;
  PictureRows rows_of_elementwise(const Node& node) const;
  bool reads_all(NodeId id, std::size_t i) const;

  const Graph* graph_;
  std::vector<PictureRows> rows_, seeds_;  // [node]
};

// Whether the op is made again wherever its rows are read, rather than kept: a view, or a doubling.
bool is_made_again(const Op& op) noexcept;

}  // namespace difflet::graph::passes
