// Linears with int8 weights: which there can be, what they become, and what is measured to choose them.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::graph::passes {

struct LinearQuant {
  WeightQuant mode = WeightQuant::W8A16;
  bool smooth = false;  // w8a8 only
  bool operator==(const LinearQuant&) const = default;
};
// By the name of the weight parameter.
using LinearQuantPlan = std::map<std::string, LinearQuant, std::less<>>;

// Names of the parameters that a quantised Linear reads in the place of `weight` [N, K]:
std::string int8_name(std::string_view weight);    // i8 [N, K]
std::string scale_name(std::string_view weight);   // f32 [N]
std::string smooth_name(std::string_view weight);  // f32 [K], what x is multiplied with

// Weights that only Linears read, in order of declaration.
std::vector<std::string> linear_weights(const Graph& graph);

// Gives the Linears of each weight of `plan` its int8 form. Throws InvalidArgument for a name that is
// none of linear_weights().
Graph quantize_linear(const Graph& graph, const LinearQuantPlan& plan);

// Adds an output f32 [K] for each of `weights`, under the weight's name: the largest magnitude that each
// column of x has in the Linears that read it. Throws as quantize_linear().
Graph observe_linear(const Graph& graph, std::span<const std::string> weights);

// Adds an output f32 [2] for each weight of `plan`, under the weight's name: the sums of squares of
// (quantised result - result) and of the result, over the Linears that read it, each on the x of the
// unquantised graph. Both forms of the weight are parameters. Throws as quantize_linear().
Graph compare_linear(const Graph& graph, const LinearQuantPlan& plan);

}  // namespace difflet::graph::passes
