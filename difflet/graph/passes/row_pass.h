// One pass over the rows of a picture, a band at a time: each band computes the next rows of every value on
// the way to the target, keeps the few that later bands read again, and computes none twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "difflet/graph/passes/row_bands.h"

namespace difflet::graph::passes {

// What a pass makes: the rows of a value, or the statistics of its rows.
struct PassTarget {
  NodeId node = 0;
  std::int64_t groups = 0;  // of GroupStatistics; 0: the rows themselves
};

// The program of one band. Inputs and outputs are named by node: "value.7", rows of a held value;
// "statistics.9", those that GroupNorm 9 takes; "carry.8", rows that the band before gave as "carry.8".
// The output "band" has the target's rows or their statistics; it is absent while there are none.
struct Band {
  Graph graph;
  RowRange rows;  // of the target
  std::map<std::string, RowRange>
      values;  // rows of each input "value.7"; 0 ... 0 of one without rows
};

class RowPass {
 public:
  // `bands` must outlive this. The target has rows.
  RowPass(const RowBands& bands, const PassTarget& target, HeldValues held);

  // How many rows of each node are there, by node.
  using Ends = std::vector<std::int64_t>;
  // After each band, when a band makes `rows` rows of the target; first comes what is before any. The
  // first bands make only what later ones read.
  std::vector<Ends> schedule(std::int64_t rows) const;
  // The rows from `before` to `after`.
  Band cut(const Ends& before, const Ends& after) const;
  // The first row that cut() reads of each held value, in the order of the band's inputs.
  std::vector<std::int64_t> held_reads(const Ends& before, const Ends& after) const;
  // Equal texts mean equal graphs, for bands of this pass.
  std::string signature(const Ends& before, const Ends& after) const;

  double flops() const;  // of all bands
  // An estimate of what a band in the middle of schedule(rows) holds at once: values, carried rows, and the
  // target's rows.
  std::size_t bytes(std::int64_t rows) const;
  // The first row of a held value that is read after the target has `rows` rows.
  std::int64_t first_read(NodeId held, std::int64_t rows) const;

 private:
  enum class Role : std::uint8_t {
    Unused,
    Leaf,   // in each band that reads it
    Whole,  // without rows: computed in each band that reads it
    Held,   // read from memory
    Again,  // made again wherever its rows are read: views, doublings, norms, activations
    Made,   // computed once, row after row
  };
  class Cutter;

  void assign_roles();
  Ends ends(std::int64_t target_rows) const;
  Ends all() const;
  bool any_made(const Ends& ends) const;
  // The first row of each node that is read once `ends` are there; past any row when none is.
  Ends first_reads(const Ends& ends) const;
  // By node: rows that a band reads, together and by each reader; whether it is read, for those without rows.
  struct Needs {
    std::vector<RowRange> rows;
    std::vector<std::vector<RowRange>> reads;
    std::vector<bool> used;
  };
  // Rows that a band makes of the node; whether it makes any, or the value without rows.
  RowRange made_rows(NodeId id, const Ends& before, const Ends& after, const Needs& needs) const;
  bool runs(NodeId id, const Ends& before, const Ends& after, const Needs& needs) const;
  Needs needs(const Ends& before, const Ends& after) const;
  std::size_t band_bytes(const Ends& before, const Ends& after) const;
  std::size_t row_bytes(NodeId id) const;

  const RowBands* bands_;
  const Graph* graph_;
  PassTarget target_;
  HeldValues held_;
  std::vector<Role> roles_;  // [node]
};

}  // namespace difflet::graph::passes
