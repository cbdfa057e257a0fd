// Splits a denoiser by when its values are known, so that a step computes only what changes in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

struct SplitOptions {
  // Timesteps in one run of the schedule program.
  std::int64_t schedule_capacity = 32;
  // A value of the schedule with more rows (elements / last axis) a step is computed in the step: a
  // batch over the timesteps saves it nothing, and the results of all steps would have to be kept.
  std::int64_t max_schedule_rows = 16;
};

// A node that left the step, or that could have and did not.
struct Moved {
  std::string what;                 // op and module path
  Binding binding = Binding::Step;  // the program that computes it now
  double flops = 0;                 // a step of the joined graph
  std::size_t weight_bytes = 0;     // that it reads a step of the joined graph
  std::string refusal;              // why it stays; empty for what moved
  // "schedule: linear transformer_blocks.0.norm1.linear, 113.2 MFLOP, 108.0 MiB"
  std::string str() const;
};

// What is computed in one program and read in a later one is an output there and an input, of that
// Binding, here; both have the same name ("request/context_embedder.0"). Inputs of the joined graph keep
// their names in every program that reads them, and nobody declares an input that it does not read.
struct SplitGraph {
  std::optional<Graph> request;  // runs once a request; none when nothing moved there
  // Runs in chunks of `capacity` timesteps. Its Schedule inputs and its outputs have a leading axis of
  // `capacity`; slice i of an output is the step program's input in step i.
  std::optional<Graph> schedule;
  Graph step;  // has all outputs of the joined graph
  std::int64_t capacity = 0;
  std::vector<Moved>
      moved;  // nodes with weights or results that another program reads, and refusals
  std::vector<std::string> notes;  // the same as lines
  double flops_saved = 0;          // a step, against the joined graph
  std::size_t weight_bytes_saved = 0;
};

// Each node runs in the program of the latest input that it depends on; what depends on parameters and
// constants alone runs in the request's. Results of work cross. Views, arithmetic with a scalar constant,
// and norms whose readers a kernel fuses with them (passes/fuse_norm.cc) are computed again where they are
// read. A graph without an input of the schedule or the step is not split: it is the step program. Ranks
// of one mesh split alike. Throws InvalidArgument for a capacity below 1.
SplitGraph split_bindings(const Graph& graph, const SplitOptions& options = {});

}  // namespace difflet::graph::passes
