// What every backend checks at its door, said once.
#pragma once

#include <memory>
#include <span>

#include "difflet/graph/graph.h"
#include "difflet/runtime/backend.h"
#include "difflet/runtime/executable.h"
#include "difflet/runtime/program.h"

namespace difflet::runtime {

// Throws InvalidArgument, naming the input, unless number, dtypes and shapes are those of the program.
void check_inputs(const graph::Graph& graph, std::span<const HostTensor> inputs);

// The graph of a program whose code is its text. Throws DataLoss unless it is one, with the program's
// name, mesh and ports.
graph::Graph read_code(const CompiledProgram& program);
// Throws DataLoss unless `wanted`, what this build reads, is what the program lists.
void check_pieces(const CompiledProgram& program, std::span<const WeightPiece> wanted);
// Throws InvalidArgument unless there are weights for each rank of the program's mesh.
void check_weights(const CompiledProgram& program,
                   std::span<const std::shared_ptr<const PackedWeights>> weights);
// Throws ResourceExhausted when the program takes more than options.memory_limit.
void check_limit(const CompiledProgram& program, const MemoryReport& planned,
                 const BackendOptions& options);

// This rank's part of a parameter in the dtype of the program. Throws InvalidArgument when the source
// has another shape, DataLoss when a value is NaN or infinite; both name the parameter.
HostTensor load_param(const graph::ParamDecl& param, const WeightSource& weights,
                      const spmd::Mesh& mesh, std::int64_t rank);

// Throws DataLoss, naming `name`, when a floating-point value is NaN or infinite.
void check_finite(std::string_view name, const HostTensor& tensor);

}  // namespace difflet::runtime
