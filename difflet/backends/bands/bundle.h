// A picture's program as a bundle: programs of bands, each there once, and the order in which they run. Its
// text is the code of a CompiledProgram, which a damaged or hostile file may hold too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/graph/graph.h"
#include "difflet/graph/passes/row_bands.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::bands {

using graph::passes::PictureRows;
using graph::passes::RowRange;

// A value that is kept whole, or belongs to the caller.
struct KeptValue {
  graph::Type type;
  PictureRows rows;

  std::size_t bytes() const noexcept;
  std::size_t row_bytes() const noexcept;    // of each of outer()
  std::int64_t outer() const noexcept;       // entries of the axes before that of the rows
  graph::Type of(std::int64_t count) const;  // of so many rows
};

// One run of a program.
struct BandRun {
  std::size_t program = 0;
  RowRange rows;  // of the pass's value
  // The first row of each input "value.7", in the order of the program's inputs.
  std::vector<std::int64_t> first;
};

// The rows of value `node`, or the statistics that GroupNorm `node` takes, of `count` rows.
struct BandPass {
  graph::NodeId node = 0;
  bool statistics = false;
  std::int64_t count = 0;
  std::vector<BandRun> runs;
};

// From a value to the next, which the last pass makes; both are in memory until it ends, values that
// earlier passes make too.
struct BandLeg {
  graph::NodeId from = 0, to = 0;
  std::vector<BandPass> passes;
};

struct Bundle {
  std::string summary;    // for people
  std::size_t limit = 0;  // bytes besides weights
  // BackendOptions::little_scratch of its programs.
  bool little_scratch = false;
  std::map<graph::NodeId, KeptValue> values;
  std::vector<runtime::CompiledProgram> programs;
  std::vector<BandLeg> legs;
};

bool is_bundle(const runtime::CompiledProgram& program) noexcept;
// `pieces`: of the program that will hold the text; those of all band programs are among them.
std::string print_bundle(const Bundle& bundle, const std::vector<runtime::WeightPiece>& pieces);
// Throws DataLoss unless the program's code is a bundle that takes and gives what the program does, reads
// nothing that is not there, and writes every row once.
Bundle read_bundle(const runtime::CompiledProgram& program);

// Where a leg's values lie in one block of memory, so that rows of `to` are written over rows of `from`
// that nothing reads any more. `to` is at 0; those of the caller are not in it.
struct LegPlace {
  std::size_t from = 0;
  std::size_t bytes = 0;
};
LegPlace place_of(const Bundle& bundle, std::size_t leg);

// What the bundle holds at most at any time, given what each program takes, weights not counted;
// scratch_bytes is the part of it that is scratch.
runtime::MemoryReport peak_of(const Bundle& bundle,
                              const std::vector<runtime::MemoryReport>& programs);

// "value" and 7 of "value.7"; an empty kind for another name.
struct PortName {
  std::string_view kind;
  graph::NodeId node = 0;
};
PortName parse_port(std::string_view name) noexcept;

}  // namespace difflet::bands
