// What int8 weights save, as `difflet inspect` tells it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/compile/quant.h"
#include "difflet/compile/staged.h"

namespace difflet::cli {

// Layers of one group in one mode.
struct QuantGroup {
  std::string group, mode;  // mode "w8a8+smooth" where x is smoothed, "none" for floats
  std::size_t layers = 0;
  std::size_t bytes = 0;        // their weights, scales and smoothing vectors as packed
  std::size_t float_bytes = 0;  // their weights as packed without quantisation
};

struct QuantSizes {
  bool asked = false;  // int8 weights were asked for
  bool can = false;    // there are layers that can have them
  bool stored = false;
  std::string label, dtype;
  std::vector<QuantGroup> groups;           // by name; empty without int8 weights
  std::map<std::string, std::string> kept;  // weights that stay floats -> why
};

// `quantised` and `floats`: programs of the same component and shapes, `dtype` that of the floats.
QuantSizes measure_quant(const compile::ComponentQuant& quant,
                         const compile::StagedPrograms& quantised,
                         const compile::StagedPrograms& floats, const std::string& dtype);
Json as_json(const QuantSizes& sizes);
std::vector<std::string> lines(const QuantSizes& sizes);

}  // namespace difflet::cli
