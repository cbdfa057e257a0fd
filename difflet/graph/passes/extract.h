// Cuts a graph into its blocks, so that two backends can be compared block by block.
#pragma once

#include <string>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

// A part of a graph that runs after the segments before it. Its inputs have the names of the graph's own
// inputs and of outputs of earlier segments; its outputs are what later segments read and those of the
// graph's outputs that it computes, which keep their names.
struct Segment {
  // A block's path, or "before transformer_blocks.0", "after single_transformer_blocks.37", "all" for
  // what lies outside; "path (2)" when a block is entered again.
  std::string name;
  Graph graph;
};

// The paths of blocks, in order of execution: the module paths up to the first component that is a
// number ("transformer_blocks.3"). Empty when no node has such a scope.
std::vector<std::string> blocks(const Graph& graph);

// Consecutive runs of nodes of one block, or of none. Every node that an output needs is in one segment,
// parameters, constants and inputs in each that reads them. Running all in order is running the graph;
// an output that is an input or a constant is one of the last segment.
std::vector<Segment> segments(const Graph& graph);

}  // namespace difflet::graph::passes
