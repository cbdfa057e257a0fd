// What every backend checks at its door, said once.
#pragma once

#include <span>

#include "difflet/graph/graph.h"
#include "difflet/runtime/executable.h"

namespace difflet::runtime {

// Throws InvalidArgument, naming the input, unless number, dtypes and shapes are those of the program.
void check_inputs(const graph::Graph& graph, std::span<const HostTensor> inputs);

// This rank's part of a parameter in the dtype of the program. Throws InvalidArgument when the source
// has another shape, DataLoss when a value is NaN or infinite; both name the parameter.
HostTensor load_param(const graph::ParamDecl& param, const WeightSource& weights,
                      const spmd::Mesh& mesh, std::int64_t rank);

// Throws DataLoss, naming `name`, when a floating-point value is NaN or infinite.
void check_finite(std::string_view name, const HostTensor& tensor);

}  // namespace difflet::runtime
